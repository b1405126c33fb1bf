package avail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/iqgate/iqgate/client"
)

// A fault is one of those that scenario mixed draws from.
type fault struct {
	name   string
	help   string
	weight int
	// act is as of a scenario, and tells what it has done to whom.
	act func(r *run, ctx context.Context) (detail string, err error)
	// needs says what is missing for it on this machine, or nothing. Optional.
	needs func(r *run) string
}

func faults() []fault {
	return []fault{
		{"kill", "a node is killed (SIGKILL), and started again", 3, viaScenario((*run).actKill), nil},
		{"pause", "a node sleeps (SIGSTOP), and is asked itself when it wakes", 2, viaScenario((*run).actPause), nil},
		{"vanish", "a node's packets are dropped", 2, viaScenario((*run).actVanish), needsNetwork},
		{"bad-link", "a node's packets are late, out of order and lost (tc netem)", 3, (*run).faultBadLink, needsNetem},
		{"loose-link", "a node's packets are dropped now and then, some in a hundred to most of them", 2, (*run).faultLooseLink, needsNetwork},
		{"router-kill", "a router is killed, and started again", 1, viaScenario((*run).actRouter), nil},
		{"broker-stop", "Kafka sleeps", 1, viaScenario((*run).actBroker), nil},
		{"broker-kill", "Kafka is killed (SIGKILL), and started again", 1, (*run).faultBrokerKill, needsRealKafka},
		{"changelog-truncated", "a changelog loses its beginning while a node is down (DeleteRecords)", 2, (*run).faultTruncate, needsRealKafka},
		{"changelog-recreated", "a changelog is deleted and made anew while nodes run", 2, (*run).faultRecreate, needsRealKafka},
		{"state-removed", "a node finds a store, or everything, removed", 2, damages(damageRemove), nil},
		{"state-cut", "a node finds files that are cut short", 2, damages(damageCut), nil},
		{"state-flipped", "a node finds files with single bits flipped", 3, damages(damageFlip), nil},
		{"state-swapped", "a node finds the directories or databases of two partitions swapped", 2, damages(damageSwap), nil},
		{"disk-full", "the disk of a node is full to the last block for a while", 2, (*run).faultFullDisk, needsSmallDisk},
	}
}

// mixed is what scenario mixed keeps.
type mixed struct {
	deck    []fault // what can be drawn, each as often as it weighs
	skipped []string
	done    []faultReport
	disk    string // mount point of the small disk, "" for none
	version int    // of the side table
}

// faultReport is one fault and what reads met in its round.
type faultReport struct {
	AtS     float64 `json:"at_s"`
	Fault   string  `json:"fault"`
	Detail  string  `json:"detail"`
	RoundMS int64   `json:"round_ms"`
	StallMS int64   `json:"stall_ms"`
	// Reads and Failed are by policy.
	Reads  map[string]int `json:"reads"`
	Failed map[string]int `json:"failed"`
}

// smallDisk is the size of the file system that node-1 has its state on.
const smallDisk = 256 << 20

// prepareMixed makes what the faults need before the nodes start.
func (r *run) prepareMixed(ctx context.Context) {
	if os.Geteuid() != 0 {
		return
	}
	var err error
	if r.net, err = newNetwork(ctx); err != nil {
		r.say("no network namespaces: " + err.Error())
		r.net = nil
	}
	dir := r.file("node-1")
	if err := os.MkdirAll(dir, 0o700); err == nil {
		if err = command(ctx, "mount", "-t", "tmpfs", "-o", "size="+strconv.Itoa(smallDisk), "tmpfs", dir); err == nil {
			r.mixed.disk = dir
		} else {
			r.say("no small disk: " + err.Error())
		}
	}
}

// endMixed undoes prepareMixed; the network is the run's.
func (r *run) endMixed(ctx context.Context) error {
	if r.mixed.disk == "" {
		return nil
	}
	disk := r.mixed.disk
	r.mixed.disk = ""
	return command(ctx, "umount", "-l", disk)
}

func needsRealKafka(r *run) string {
	if r.real == nil {
		return "needs --kafka real"
	}
	return ""
}

func needsNetwork(r *run) string {
	if r.net == nil {
		return "needs network namespaces, hence root"
	}
	return ""
}

func needsNetem(r *run) string {
	if r.net == nil {
		return needsNetwork(r)
	}
	return r.net.netemLacks
}

func needsSmallDisk(r *run) string {
	if r.mixed.disk == "" {
		return "needs to mount a tmpfs, hence root"
	}
	return ""
}

// shuffle fills the deck when it is empty: each fault comes as often as it weighs before any comes again, in an order that the
// seed chooses.
func (r *run) shuffle() error {
	m := &r.mixed
	if len(m.deck) > 0 {
		return nil
	}
	first := len(m.done) == 0
	for _, f := range faults() {
		if f.needs != nil {
			if lacks := f.needs(r); lacks != "" {
				if first {
					m.skipped = append(m.skipped, f.name+": "+lacks)
				}
				continue
			}
		}
		for range f.weight {
			m.deck = append(m.deck, f)
		}
	}
	if len(m.deck) == 0 {
		return errors.New("no fault can be played here")
	}
	r.random.Shuffle(len(m.deck), func(i, j int) { m.deck[i], m.deck[j] = m.deck[j], m.deck[i] })
	return nil
}

// actMixed plays one fault.
func (r *run) actMixed(ctx context.Context) (int, error) {
	if err := r.shuffle(); err != nil {
		return 0, err
	}
	f := r.mixed.deck[0]
	r.mixed.deck = r.mixed.deck[1:]
	at := r.now()
	r.say("fault: " + f.name)
	detail, err := f.act(r, ctx)
	if err != nil {
		return 0, fmt.Errorf("fault %s: %w", f.name, err)
	}
	r.mixed.done = append(r.mixed.done, faultReport{AtS: at.Seconds(), Fault: f.name, Detail: detail})
	return len(r.nodes), nil
}

// noteRound adds to the last fault what its round was like.
func (r *run) noteRound(one round) {
	if len(r.mixed.done) == 0 {
		return
	}
	f := &r.mixed.done[len(r.mixed.done)-1]
	f.RoundMS, f.StallMS = one.length.Milliseconds(), one.stall.Milliseconds()
	f.Reads, f.Failed = map[string]int{}, map[string]int{}
	for i, p := range r.probe.policies {
		f.Reads[p.name] = one.window.tallies[i].reads
		if n := one.window.tallies[i].failed; n > 0 {
			f.Failed[p.name] = n
		}
	}
}

// viaScenario plays a scenario's round.
func viaScenario(act func(*run, context.Context) (int, error)) func(*run, context.Context) (string, error) {
	return func(r *run, ctx context.Context) (string, error) {
		_, err := act(r, ctx)
		return r.lastSaid, err
	}
}

// Times of faults.
const (
	badLinkFor  = 15 * time.Second
	fullDiskFor = 12 * time.Second
	downFor     = 3 * time.Second // a node whose state is damaged meanwhile
)

// faultBadLink makes what a node sends, and what it is sent, late, out of order and incomplete.
func (r *run) faultBadLink(ctx context.Context) (string, error) {
	m := r.nodes[r.random.IntN(len(r.nodes))]
	delay, loss := 20+r.random.IntN(180), 1+r.random.IntN(8)
	if err := r.net.netem(ctx, m.number(), delay, loss); err != nil {
		return "", err
	}
	detail := fmt.Sprintf("%s: packets are late by %dms +-%dms, %d%% are lost, both ways", m.name, delay, delay/2, loss)
	r.say(detail)
	ok := sleep(ctx, r.awayFor(badLinkFor))
	if err := r.net.netemOff(context.WithoutCancel(ctx), m.number()); err != nil {
		return "", err
	}
	if !ok {
		return "", context.Cause(ctx)
	}
	return detail, nil
}

// faultLooseLink drops all packets of a node for a moment, again and again.
func (r *run) faultLooseLink(ctx context.Context) (string, error) {
	m := r.nodes[r.random.IntN(len(r.nodes))]
	off := time.Duration(20+r.random.IntN(400)) * time.Millisecond
	on := time.Duration(50+r.random.IntN(900)) * time.Millisecond
	detail := fmt.Sprintf("%s: all packets are dropped for %s, again and again with %s in between", m.name, off, on)
	r.say(detail)
	healed := context.WithoutCancel(ctx)
	for until := r.now() + r.awayFor(badLinkFor); r.now() < until; {
		if err := r.net.drop(ctx, m.number()); err != nil {
			return "", errors.Join(err, r.net.heal(healed, m.number()))
		}
		ok := sleep(ctx, off)
		if err := r.net.heal(healed, m.number()); err != nil {
			return "", err
		}
		if !ok || !sleep(ctx, on) {
			return "", context.Cause(ctx)
		}
	}
	return detail, nil
}

// faultBrokerKill kills the broker and starts it again.
func (r *run) faultBrokerKill(ctx context.Context) (string, error) {
	before := r.o.BrokerAway
	r.o.BrokerAway = awayKill
	defer func() { r.o.BrokerAway = before }()
	_, err := r.actBroker(ctx)
	return "the broker was killed and started again", err
}

// faultFullDisk fills the disk of node-1 to its last block, and frees it again.
func (r *run) faultFullDisk(ctx context.Context) (string, error) {
	ballast := filepath.Join(r.mixed.disk, "ballast")
	n, err := fill(ballast)
	if err != nil {
		return "", err
	}
	detail := fmt.Sprintf("node-1: the last %d MB of its disk are taken", n>>20)
	r.say(detail)
	ok := sleep(ctx, r.awayFor(fullDiskFor))
	if err := os.Remove(ballast); err != nil {
		return "", err
	}
	if !ok {
		return "", context.Cause(ctx)
	}
	r.say("node-1 has room again")
	return detail, nil
}

// fill writes a file until there is no room, and says how large it is.
func fill(path string) (n int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for size := 1 << 20; size >= 1<<9; {
		wrote, err := f.Write(make([]byte, size))
		n += int64(wrote)
		switch {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			return n, err
		}
	}
	return n, nil
}

// compareReplicas compares the states of each partition's replicas, and each replica with its changelog.
func (r *run) compareReplicas(ctx context.Context) (broken []string, entries int64, err error) {
	instances, err := r.instances(ctx, 0)
	if err != nil {
		return nil, 0, err
	}
	type partition struct {
		store  string
		number int32
	}
	on, names := map[partition][]*client.Client{}, map[partition][]string{}
	for _, in := range instances {
		if !in.GetAlive() {
			continue
		}
		c, err := client.New([]string{in.GetAddress()})
		if err != nil {
			return nil, 0, err
		}
		defer c.Close() //nolint:errcheck // nothing is lost
		for _, s := range in.GetReplicas() {
			p := partition{s.GetStore(), s.GetPartition()}
			on[p], names[p] = append(on[p], c), append(names[p], in.GetNode())
		}
	}
	for p, nodes := range on {
		states, equal := client.CompareReplicas(ctx, p.store, p.number, nodes)
		for i, s := range states {
			if s.Err != nil {
				broken = append(broken, fmt.Sprintf("%s/%d cannot be compared at %s: %v", p.store, p.number, names[p][i], s.Err))
			}
			entries += s.Entries
		}
		if !equal {
			broken = append(broken, fmt.Sprintf("the replicas of %s/%d differ: %s", p.store, p.number, stateText(names[p], states)))
		}
		for i, c := range nodes {
			broken = append(broken, r.compareWithLog(ctx, c, names[p][i], p.store, p.number)...)
		}
	}
	return broken, entries, nil
}

func stateText(names []string, states []client.State) string {
	var b strings.Builder
	for i, s := range states {
		fmt.Fprintf(&b, " %s at %d has %d entries (%.4x)", names[i], s.Status.GetPosition(), s.Entries, s.Digest)
	}
	return b.String()
}
