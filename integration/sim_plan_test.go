//go:build synctests

package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Who there is in a simulation. The guest joins for a while and leaves.
var (
	simNodes   = []string{"a", "b", "c"}
	simRouters = []string{"r1", "r2"}
)

const simGuest = "d"

// Times of a simulation, by the bubble's clock.
const (
	simWarmUp  = 1500 * time.Millisecond // before the first fault
	simFaults  = 6500 * time.Millisecond // in which faults begin
	simHeal    = 45 * time.Second        // within which everything must be right after the last fault
	simSession = 3 * time.Second         // of the group, so that a dead node is noticed within a run
	simLease   = time.Second
)

// A simEvent is one fault: what happens to whom, when, and for how long.
type simEvent struct {
	kind     simKind
	who      string // node, router or store
	other    string // the other end of a link
	broker   int    // the other end, by its place in the list of brokers
	way      simWay // of a link
	at, last time.Duration
	delay    time.Duration // slowNode, jumpClock
	step     string        // crashNode, failStep
	nth      int           // of the step
	wipe     bool          // the node comes back without its state directory
	request  kmsg.Key      // brokerFault, dropRequest, loseReply
	err      *kerr.Error
	count    int
}

// A simWay is the direction in which a link carries nothing.
type simWay int

const (
	bothWays simWay = iota
	requests        // of who dials
	replies
)

type simKind int

const (
	killNode       simKind = iota // cut off in the middle of whatever it does, and started again
	stopNode                      // ended in order and started again
	drainNode                     // told by a call to hand over and go, and started again
	freezeNode                    // its network is silent
	freezeKafka                   // nothing passes between it and the brokers, while routers reach it
	freezeBroker                  // nothing passes between it and one broker
	slowNode                      // its network is slow, and one connection overtakes another
	resetNode                     // its connections break and can be made again
	crashNode                     // killed at a step of the commit, or of giving up tasks
	crashStart                    // killed, and killed again at a step of restoring or promoting
	failStep                      // what the node does fails at a step
	fullDisk                      // there is no room on its disk
	freezeLink                    // nothing passes between a node and a router or another node
	freezeClient                  // nothing passes between the readers and a router or a node
	killRouter                    // cut off and started again
	stopRouter                    // ended in order and started again
	brokerFault                   // the broker answers some requests with an error
	dropRequest                   // the broker breaks the connection on which some requests come
	loseReply                     // the connection breaks between a request that is carried out and its reply
	stallChangelog                // nobody can follow a store's changelog, so that standbys fall behind
	moveLeaders                   // partitions get other leaders
	moveGroups                    // group and transactions get other coordinators
	joinGuest                     // one more node joins, and leaves
	jumpClock                     // the clock by which the producers stamp records jumps
	simKinds                      // how many there are
)

var simKindNames = [simKinds]string{
	"kill node", "stop node", "drain node", "freeze node", "freeze Kafka of node", "freeze broker of node", "slow node", "reset connections of node",
	"crash node", "crash starting node", "fail step of node", "fill disk of node", "freeze link", "freeze clients of", "kill router", "stop router",
	"broker fault", "drop request", "lose reply", "stall changelog of", "move leaders", "move coordinators", "join guest", "jump clock",
}

func (e simEvent) String() string {
	s := fmt.Sprintf("%s %s", e.at, simKindNames[e.kind])
	for _, word := range []string{e.who, e.other, e.step} {
		if word != "" {
			s += " " + word
		}
	}
	if e.kind == freezeBroker {
		s += fmt.Sprintf(" %d", e.broker)
	}
	switch e.way {
	case bothWays:
	case requests:
		s += " requests"
	case replies:
		s += " replies"
	}
	switch {
	case e.nth > 0:
		s += fmt.Sprintf(" the %d. time", e.nth)
	case e.delay != 0:
		s += " by " + e.delay.String()
	case e.err != nil:
		s += fmt.Sprintf(" %s %s %d times", e.request.Name(), e.err.Message, e.count)
	case e.count > 0:
		s += fmt.Sprintf(" %s %d times", e.request.Name(), e.count)
	}
	if e.last > 0 {
		s += " for " + e.last.String()
	}
	if e.wipe {
		s += ", its state is lost"
	}
	return s
}

// A simPlan is everything that a seed chooses.
type simPlan struct {
	seed       uint64
	partitions int32
	brokers    int
	other      string        // the store beside simLatest
	groups     bool          // simCounts counts by group, through a repartition topic
	shortKept  bool          // windows, sessions and versions are kept for seconds
	latency    time.Duration // of each node's network
	spread     time.Duration // on top of it, at random
	pause      time.Duration // at a step of each commit, so that outcomes stay unknown for a while
	pauseStep  string
	keys       int
	writeEvery time.Duration // on average
	events     []simEvent
}

func (p simPlan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d partitions, %d brokers, store %s (by group %v, kept for seconds %v), latency %s and up to %s, pause %s at %s, %d keys, a record each %s\n",
		p.seed, p.partitions, p.brokers, p.other, p.groups, p.shortKept, p.latency, p.spread, p.pause, p.pauseStep, p.keys, p.writeEvery)
	for _, e := range slices.SortedStableFunc(slices.Values(p.events), func(a, b simEvent) int { return int(a.at - b.at) }) {
		fmt.Fprintf(&b, "  %s\n", e)
	}
	return b.String()
}

// simRand is the source of one part of a run: the parts do not disturb one another.
func simRand(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }

// Steps of a node at which it crashes or fails, as node.Config.Step names them.
var (
	simCommitSteps = []string{"produce", "flush", "offsets", "end", "sent", "apply", "applied"}
	simGiveSteps   = []string{"revoke", "released"}
	simStartSteps  = []string{"open", "restore", "fence", "committed", "ends", "take"}
)

// planOf is what a seed means. It is a pure function of the seed.
func planOf(seed uint64) simPlan {
	r := simRand(seed, 0)
	p := simPlan{
		seed: seed, partitions: 1 + r.Int32N(3), brokers: 1 + r.IntN(2), keys: 3 + r.IntN(8),
		other: pick(r, []string{simCounts, simCounts, simWindows, simSessions, simVersions}), shortKept: r.IntN(3) == 0,
		writeEvery: between(r, 10*time.Millisecond, 60*time.Millisecond),
	}
	p.groups = p.other == simCounts && r.IntN(2) == 0
	if r.IntN(3) > 0 {
		p.latency = between(r, 0, 4*time.Millisecond)
	}
	if r.IntN(4) == 0 {
		p.spread = between(r, 0, 20*time.Millisecond)
	}
	if r.IntN(3) == 0 {
		p.pause, p.pauseStep = between(r, time.Millisecond, 80*time.Millisecond), pick(r, []string{"flush", "end", "sent", "apply"})
	}
	for _, node := range simNodes {
		p.nodeEvents(r, node)
	}
	p.routerEvents(r)
	p.networkEvents(r)
	p.brokerEvents(r)
	if r.IntN(3) == 0 {
		p.events = append(p.events, simEvent{kind: joinGuest, who: simGuest, at: simWarmUp + between(r, 0, simFaults), last: between(r, 0, 6*time.Second), wipe: r.IntN(2) == 0})
	}
	for t := between(r, 0, 8*time.Second); t < simWarmUp+simFaults; t += between(r, time.Second, 8*time.Second) {
		p.events = append(p.events, simEvent{kind: jumpClock, at: t, delay: between(r, -10*time.Minute, 10*time.Minute)})
	}
	return p
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from))).Truncate(time.Microsecond)
}
