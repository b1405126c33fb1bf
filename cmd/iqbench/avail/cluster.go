package avail

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/cmd/internal/cluster"
	"github.com/iqgate/iqgate/integration/process"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	application = "iqbench"
	store       = "counts"
	topic       = "iqbench-in"
	routerCount = 2

	topologyYAML = `application: ` + application + `
sources:
  - {topic: ` + topic + `, format: raw, value_serde: string}
aggregates:
  - {store: ` + store + `, source: ` + topic + `, count: true}
`

	// wellTimeout bounds the wait for a cluster in which all is well, and balanceTimeout that for an even one, from then on.
	wellTimeout, balanceTimeout = 2 * time.Minute, 30 * time.Second
	wellFor                     = time.Second // without a break
	caughtUpWithin              = 2 * time.Second
	saySoAfter                  = 10 * time.Second
	askTimeout                  = 2 * time.Second // one question about the cluster
)

// startCluster starts routers and nodes.
func (r *run) startCluster(ctx context.Context) error {
	yaml := topologyYAML
	if r.scenario == scenarioMixed {
		yaml = strings.Replace(yaml, "aggregates:", sideYAML+sideTable+"aggregates:", 1)
	}
	if err := os.WriteFile(r.file("topology.yaml"), []byte(yaml), 0o600); err != nil {
		return err
	}
	for i := range routerCount {
		address, err := process.Address()
		if err != nil {
			return err
		}
		name := "router-" + strconv.Itoa(i+1)
		m := r.member(name, address, "iqrouter", "--listen", address, "--name", name, "--hedge="+strconv.FormatBool(r.o.Hedge))
		r.routers = append(r.routers, m)
		if err := errors.Join(m.start(), m.listens(ctx)); err != nil {
			return err
		}
		c, err := client.New([]string{address})
		if err != nil {
			return err
		}
		r.asking = append(r.asking, c)
	}
	if err := r.connect(); err != nil {
		return err
	}
	for range r.o.Nodes {
		m, err := r.addNode(ctx)
		if err != nil {
			return err
		}
		if err := m.start(); err != nil {
			return err
		}
	}
	return r.awaitWell(ctx, r.o.Nodes)
}

// connect makes the clients that read: each asks one router, or knows both and begins with another one.
func (r *run) connect() error {
	for i := range r.routers {
		targets := []string{r.routers[i].address}
		if !r.o.NoClientRetry || r.scenario == scenarioRouter || r.scenario == scenarioMixed {
			for _, other := range r.routers {
				if other != r.routers[i] {
					targets = append(targets, other.address)
				}
			}
		}
		c, err := client.New(targets, client.WithTargetsInOrder())
		if err != nil {
			return err
		}
		r.readers = append(r.readers, c)
	}
	return nil
}

// member is a program of the cluster, not yet started.
func (r *run) member(name, address, program string, args ...string) *member {
	return &member{name: name, address: address, died: r.died, spec: process.Spec{Path: filepath.Join(r.bin, program), Args: args, Log: r.file(name + ".log")}}
}

// addNode adds the next node, not yet started.
func (r *run) addNode(ctx context.Context) (*member, error) {
	name := "node-" + strconv.Itoa(len(r.nodes)+1)
	address, err := process.Address()
	if err != nil {
		return nil, err
	}
	if r.net != nil {
		host, err := r.net.add(ctx, len(r.nodes)+1)
		if err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		address = net.JoinHostPort(host, port)
	}
	var routers []string
	for _, m := range r.routers {
		routers = append(routers, m.address)
	}
	m := r.member(name, address, "iqnode",
		"--node-id", name, "--topology", r.file("topology.yaml"), "--brokers", r.brokers, "--routers", strings.Join(routers, ","),
		"--state-dir", r.file(name), "--listen", address, "--standbys", strconv.Itoa(r.o.Standbys))
	if r.net != nil {
		m.spec.Args = append(r.net.within(len(r.nodes)+1), append([]string{m.spec.Path}, m.spec.Args...)...)
		m.spec.Path = r.net.ip
	}
	r.nodes = append(r.nodes, m)
	return m, nil
}

// instances asks one router for all that it knows.
func (r *run) instances(ctx context.Context, router int) ([]*iqv1.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return r.asking[router].Instances(ctx, "")
}

// awaitWell waits until both routers have said for a second that all is well, with so many nodes, and until the tasks are
// spread. The latter is not waited for long: an uneven cluster is no broken one.
func (r *run) awaitWell(ctx context.Context, nodes int) error {
	begun, said := r.now(), r.now()
	var wellSince time.Duration = -1
	var evenBy time.Duration
	for {
		missing, uneven := r.lacks(ctx, nodes)
		now := r.now()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case missing != "":
			wellSince, evenBy = -1, 0
		case wellSince < 0:
			wellSince = now
		}
		if evenBy == 0 && missing == "" {
			evenBy = now + balanceTimeout
		}
		if missing == "" && uneven != "" && now < evenBy {
			wellSince = now
		}
		if wellSince >= 0 && now-wellSince >= wellFor {
			if uneven != "" {
				r.say("all is well but for this: " + uneven)
			}
			return nil
		}
		if missing == "" {
			missing = uneven
		}
		if now-begun > wellTimeout {
			return fmt.Errorf("not well again after %s: %s", wellTimeout, missing)
		}
		if now-said > saySoAfter && missing != "" {
			said = now
			r.say("waiting for " + missing)
		}
		if !sleep(ctx, poll) {
			return context.Cause(ctx)
		}
	}
}

// lacks says what is missing until all is well, and what until tasks are spread.
func (r *run) lacks(ctx context.Context, nodes int) (missing, uneven string) {
	for i, m := range r.routers {
		instances, err := r.instances(ctx, i)
		if err != nil {
			return fmt.Sprintf("%s: %v", m.name, err), ""
		}
		if missing = lacking(cluster.Of(instances), nodes, r.storePartitions(), min(r.o.Standbys, nodes-1)); missing != "" {
			return m.name + " tells of " + missing, ""
		}
		uneven = unevenness(instances, r.storePartitions())
	}
	return "", uneven
}

// storePartitions is how many partitions all stores have.
func (r *run) storePartitions() int {
	if r.scenario == scenarioMixed {
		return 2 * r.o.Partitions
	}
	return r.o.Partitions
}

// lacking says what is missing until all is well, or nothing.
func lacking(c *cluster.Cluster, nodes, partitions, standbys int) string {
	if text := c.Missing(nodes, partitions, standbys); text != "" {
		return text
	}
	for _, n := range c.Nodes {
		switch {
		case !n.Alive:
		case n.Suspect:
			return n.Name + ": it is suspect"
		case n.Restoring > 0:
			return fmt.Sprintf("%s: %d are restoring", n.Name, n.Restoring)
		case n.LagTime > caughtUpWithin:
			return fmt.Sprintf("%s: it is %s behind", n.Name, n.LagTime)
		}
	}
	return ""
}

// unevenness says in which way tasks are not spread, or nothing: a warm-up has not become what it is for, or a node is active
// for much less than another.
func unevenness(instances []*iqv1.Instance, partitions int) string {
	least, most, alive := partitions, 0, 0
	poor := ""
	for _, in := range instances {
		if !in.GetAlive() {
			continue
		}
		alive++
		actives := 0
		for _, s := range in.GetReplicas() {
			switch s.GetRole() {
			case iqv1.Role_ROLE_WARMUP:
				return in.GetNode() + " warms up"
			case iqv1.Role_ROLE_ACTIVE:
				actives++
			case iqv1.Role_ROLE_STANDBY, iqv1.Role_ROLE_UNSPECIFIED:
			}
		}
		if most = max(most, actives); actives < least {
			least, poor = actives, in.GetNode()
		}
	}
	if alive > 0 && most-least > 1 {
		return fmt.Sprintf("%s is active for %d partitions, another node for %d", poor, least, most)
	}
	return ""
}

// victim is a node that is active for something, chosen by the seed, with its partitions.
func (r *run) victim(ctx context.Context) (*member, []int32, error) {
	instances, err := r.instances(ctx, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("choose a victim: %w", err)
	}
	held := map[string][]int32{}
	for p, node := range cluster.Of(instances).Actives {
		if p.Store == store {
			held[node] = append(held[node], p.Number)
		}
	}
	var able []*member
	for _, m := range r.nodes {
		if len(held[m.name]) > 0 {
			able = append(able, m)
		}
	}
	if len(able) == 0 {
		return nil, nil, errors.New("choose a victim: no node is active for anything")
	}
	m := able[r.random.IntN(len(able))]
	return m, held[m.name], nil
}
