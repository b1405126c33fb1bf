package avail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// commandTimeout bounds one call of ip or bridge.
const commandTimeout = 10 * time.Second

// A network gives each node a network namespace of its own, joined to the host by a bridge:
//
//	host (Kafka, routers, reads)   bridge 198.18.x.1 ── veth ── node-1's namespace 198.18.x.11
//	                                                 ── veth ── node-2's namespace 198.18.x.12
//
// Packets of a node are dropped by disabling its port of the bridge: links stay up, neighbours stay known, nothing is
// refused or unreachable, nothing comes. Kafka and routers listen at 127.0.0.1 of the host; a namespace has no loopback
// device, and routes 127.0.0.1 to the host instead, so that no address must be translated. 198.18.0.0/15 is set aside for
// measurements (RFC 2544).
type network struct {
	ip, bridge string // commands
	tc         string
	netemLacks string // what is missing to make links bad, "" for nothing
	name       string // of the bridge; begins the names of namespaces and links
	prefix     string // of addresses
	made       []func(context.Context) error
}

// newNetwork makes the bridge, or says what is missing to make it.
func newNetwork(ctx context.Context) (*network, error) {
	pid := os.Getpid()
	n := &network{name: "iqb" + strconv.Itoa(pid), prefix: "198.18." + strconv.Itoa(pid%254+1) + "."}
	var err error
	if n.ip, err = exec.LookPath("ip"); err == nil {
		n.bridge, err = exec.LookPath("bridge")
	}
	if err != nil {
		return nil, fmt.Errorf("network namespaces need the commands ip and bridge of iproute2: %w", err)
	}
	if err := n.call(ctx, n.ip, "link", "add", n.name, "address", "02:69:71:00:00:01", "type", "bridge"); err != nil {
		return nil, err
	}
	n.made = append(n.made, func(ctx context.Context) error { return n.call(ctx, n.ip, "link", "delete", n.name) })
	n.findNetem(ctx)
	err = errors.Join(
		n.call(ctx, n.ip, "address", "add", n.prefix+"1/24", "dev", n.name),
		n.call(ctx, n.ip, "link", "set", n.name, "up"),
		os.WriteFile("/proc/sys/net/ipv4/conf/"+n.name+"/route_localnet", []byte("1"), 0o600),
	)
	if err != nil {
		return nil, errors.Join(err, n.remove(ctx))
	}
	return n, nil
}

// add makes the namespace of a node, counted from 1, and gives its address.
func (n *network) add(ctx context.Context, node int) (host string, err error) {
	space, link, mac := n.space(node), n.link(node), fmt.Sprintf("02:69:71:00:01:%02x", node)
	host = n.prefix + strconv.Itoa(10+node)
	if err := n.call(ctx, n.ip, "netns", "add", space); err != nil {
		return "", err
	}
	n.made = append(n.made, func(ctx context.Context) error { return n.call(ctx, n.ip, "netns", "delete", space) })
	if err := n.call(ctx, n.ip, "link", "add", link, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", space); err != nil {
		return "", err
	}
	// A namespace takes its links along, but some time after it is deleted.
	n.made = append(n.made, func(ctx context.Context) error { return n.call(ctx, n.ip, "link", "delete", link) })
	for _, args := range [][]string{
		{"link", "set", link, "master", n.name, "up"},
		{"-n", space, "address", "add", host + "/24", "dev", "eth0"},
		{"-n", space, "link", "set", "eth0", "up"},
		{"netns", "exec", space, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/eth0/route_localnet"},
		{"-n", space, "route", "add", "127.0.0.1/32", "via", n.prefix + "1", "dev", "eth0", "src", host},
		{"-n", space, "neighbour", "replace", n.prefix + "1", "lladdr", "02:69:71:00:00:01", "dev", "eth0", "nud", "permanent"},
		{"neighbour", "replace", host, "lladdr", mac, "dev", n.name, "nud", "permanent"},
	} {
		if err := n.call(ctx, n.ip, args...); err != nil {
			return "", err
		}
	}
	return host, nil
}

// within are the arguments of ip before a command that runs as a node.
func (n *network) within(node int) []string { return []string{"netns", "exec", n.space(node)} }

// drop has all packets of a node dropped, both ways; heal ends it.
func (n *network) drop(ctx context.Context, node int) error {
	return n.call(ctx, n.bridge, "link", "set", "dev", n.link(node), "state", "disabled")
}

func (n *network) heal(ctx context.Context, node int) error {
	return n.call(ctx, n.bridge, "link", "set", "dev", n.link(node), "state", "forwarding")
}

// findNetem finds tc, and whether the kernel can make links bad.
func (n *network) findNetem(ctx context.Context) {
	var err error
	if n.tc, err = exec.LookPath("tc"); err == nil {
		err = errors.Join(
			n.call(ctx, n.tc, "qdisc", "add", "dev", n.name, "root", "netem", "delay", "1ms"),
			n.call(ctx, n.tc, "qdisc", "delete", "dev", n.name, "root"),
		)
	}
	if err != nil {
		n.netemLacks = "needs tc and the kernel's netem: " + err.Error()
	}
}

// netem makes packets of a node late, out of order and lost, both ways; netemOff ends it.
func (n *network) netem(ctx context.Context, node, delayMS, lossPercent int) error {
	how := []string{"root", "netem", "delay", fmt.Sprintf("%dms", delayMS), fmt.Sprintf("%dms", delayMS/2), "loss", fmt.Sprintf("%d%%", lossPercent)}
	return errors.Join(
		n.call(ctx, n.tc, append([]string{"qdisc", "add", "dev", n.link(node)}, how...)...),
		n.call(ctx, n.ip, append([]string{"netns", "exec", n.space(node), n.tc, "qdisc", "add", "dev", "eth0"}, how...)...),
	)
}

func (n *network) netemOff(ctx context.Context, node int) error {
	return errors.Join(
		n.call(ctx, n.tc, "qdisc", "delete", "dev", n.link(node), "root"),
		n.call(ctx, n.ip, "netns", "exec", n.space(node), n.tc, "qdisc", "delete", "dev", "eth0", "root"),
	)
}

// remove takes everything away again, the last first.
func (n *network) remove(ctx context.Context) error {
	var errs []error
	for _, undo := range slices.Backward(n.made) {
		errs = append(errs, undo(ctx))
	}
	n.made = nil
	return errors.Join(errs...)
}

func (n *network) space(node int) string { return n.name + "-" + strconv.Itoa(node) }

func (n *network) link(node int) string { return n.name + "v" + strconv.Itoa(node) }

func (n *network) call(ctx context.Context, name string, args ...string) error {
	return command(ctx, name, args...)
}

// command runs a command of the system.
func command(ctx context.Context, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// number is the n of node-n.
func (m *member) number() int {
	_, digits, _ := strings.Cut(m.name, "-")
	n, err := strconv.Atoi(digits)
	if err != nil {
		panic("member " + m.name + " has no number")
	}
	return n
}
