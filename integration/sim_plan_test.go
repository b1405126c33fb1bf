//go:build synctests

package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Who there is in a simulation.
var (
	simNodes   = []string{"a", "b", "c"}
	simRouters = []string{"r1", "r2"}
)

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
	who      string // node or router
	router   string // the other end of a link
	at, last time.Duration
	delay    time.Duration // slowNode
	step     string        // crashNode, failStep
	nth      int           // of the step
	request  kmsg.Key      // brokerFault
	err      *kerr.Error
	count    int
}

type simKind int

const (
	killNode       simKind = iota // cut off in the middle of whatever it does, and started again
	stopNode                      // ended in order and started again
	freezeNode                    // its network is silent
	freezeKafka                   // nothing passes between it and the brokers, while routers reach it
	slowNode                      // its network is slow
	crashNode                     // killed at a step of the commit
	failStep                      // the worker's transaction fails at a step of the commit
	freezeLink                    // nothing passes between a node and a router
	killRouter                    // cut off and started again
	stopRouter                    // ended in order and started again
	brokerFault                   // the broker answers some requests with an error
	stallChangelog                // nobody can follow a store's changelog, so that standbys fall behind
	moveLeaders                   // partitions get other leaders
	simKinds                      // how many there are
)

var simKindNames = [simKinds]string{
	"kill node", "stop node", "freeze node", "freeze Kafka of node", "slow node", "crash node", "fail step of node", "freeze link", "kill router", "stop router",
	"broker fault", "stall changelog of", "move leaders",
}

func (e simEvent) String() string {
	s := fmt.Sprintf("%s %s", e.at, simKindNames[e.kind])
	for _, word := range []string{e.who, e.router, e.step} {
		if word != "" {
			s += " " + word
		}
	}
	switch {
	case e.nth > 0:
		s += fmt.Sprintf(" the %d. time", e.nth)
	case e.delay > 0:
		s += " by " + e.delay.String()
	case e.err != nil:
		s += fmt.Sprintf(" %s %s %d times", e.request.Name(), e.err.Message, e.count)
	}
	if e.last > 0 {
		s += " for " + e.last.String()
	}
	return s
}

// A simPlan is everything that a seed chooses.
type simPlan struct {
	seed        uint64
	partitions  int32
	brokers     int
	repartition bool
	latency     time.Duration // of each node's network
	pause       time.Duration // at a step of each commit, so that outcomes stay unknown for a while
	pauseStep   string
	keys        int
	writeEvery  time.Duration // on average
	events      []simEvent
}

func (p simPlan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d partitions, %d brokers, repartition %v, latency %s, pause %s at %s, %d keys, a record each %s\n",
		p.seed, p.partitions, p.brokers, p.repartition, p.latency, p.pause, p.pauseStep, p.keys, p.writeEvery)
	for _, e := range p.events {
		fmt.Fprintf(&b, "  %s\n", e)
	}
	return b.String()
}

// simRand is the source of one part of a run: the parts do not disturb one another.
func simRand(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }

// simCommitSteps are the steps of a commit at which a node crashes or fails.
var simCommitSteps = []string{"produce", "flush", "offsets", "end", "sent", "apply", "applied"}

// simBrokerFaults are what a broker may answer: all of it passes.
var simBrokerFaults = []struct {
	request kmsg.Key
	errs    []*kerr.Error
}{
	{kmsg.EndTxn, []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.InvalidTxnState, kerr.ProducerFenced}},
	{kmsg.InitProducerID, []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress}},
	{kmsg.AddPartitionsToTxn, []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.InvalidTxnState}},
	{kmsg.AddOffsetsToTxn, []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.InvalidProducerEpoch}},
	{kmsg.TxnOffsetCommit, []*kerr.Error{kerr.NotCoordinator, kerr.IllegalGeneration, kerr.RequestTimedOut, kerr.UnknownMemberID}},
	{kmsg.OffsetFetch, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress}},
	{kmsg.Heartbeat, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.RebalanceInProgress, kerr.UnknownMemberID}},
	{kmsg.JoinGroup, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress}},
	{kmsg.SyncGroup, []*kerr.Error{kerr.NotCoordinator, kerr.RebalanceInProgress}},
	{kmsg.Fetch, []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownServerError}},
	{kmsg.ListOffsets, []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable}},
	{kmsg.Produce, []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.RequestTimedOut}},
}

// planOf is what a seed means. It is a pure function of the seed.
func planOf(seed uint64) simPlan {
	r := simRand(seed, 0)
	p := simPlan{
		seed: seed, partitions: 1 + r.Int32N(3), brokers: 1 + r.IntN(2), repartition: r.IntN(3) == 0, keys: 3 + r.IntN(8),
		writeEvery: between(r, 10*time.Millisecond, 60*time.Millisecond),
	}
	if r.IntN(3) > 0 {
		p.latency = between(r, 0, 4*time.Millisecond)
	}
	if r.IntN(3) == 0 {
		p.pause, p.pauseStep = between(r, time.Millisecond, 80*time.Millisecond), pick(r, []string{"flush", "end", "sent", "apply"})
	}
	for _, node := range simNodes {
		for t := simWarmUp + between(r, 0, 4*time.Second); t < simWarmUp+simFaults; {
			e := nodeEvent(r, node, t)
			p.events = append(p.events, e)
			t += e.last + between(r, 500*time.Millisecond, 4*time.Second)
		}
	}
	for _, router := range simRouters {
		for t := simWarmUp + between(r, 0, 8*time.Second); t < simWarmUp+simFaults; {
			e := simEvent{kind: killRouter, who: router, at: t, last: between(r, 50*time.Millisecond, 2*time.Second)}
			if r.IntN(2) == 0 {
				e.kind = stopRouter
			}
			p.events = append(p.events, e)
			t += e.last + between(r, 2*time.Second, 8*time.Second)
		}
	}
	for t := simWarmUp + between(r, 0, 2*time.Second); t < simWarmUp+simFaults; t += between(r, 200*time.Millisecond, 3*time.Second) {
		if p.brokers > 1 && r.IntN(4) == 0 {
			p.events = append(p.events, simEvent{kind: moveLeaders, at: t})
			continue
		}
		if r.IntN(4) == 0 {
			e := simEvent{kind: stallChangelog, who: pick(r, []string{simLatest, simCounts}), at: t, last: between(r, 300*time.Millisecond, 2500*time.Millisecond)}
			p.events = append(p.events, e)
			continue
		}
		f := pick(r, simBrokerFaults)
		p.events = append(p.events, simEvent{kind: brokerFault, at: t, request: f.request, err: pick(r, f.errs), count: 1 + r.IntN(6)})
	}
	return p
}

func nodeEvent(r *rand.Rand, node string, at time.Duration) simEvent {
	e := simEvent{who: node, at: at}
	switch r.IntN(12) {
	case 0, 1:
		e.kind, e.last = killNode, between(r, 0, 5*time.Second)
	case 2:
		e.kind, e.last = stopNode, between(r, 0, 3*time.Second)
	case 3:
		e.kind, e.last = freezeNode, between(r, 100*time.Millisecond, simLease)
	case 4:
		e.kind, e.last = freezeNode, between(r, simLease, 2*simSession)
	case 5:
		e.kind, e.last, e.delay = slowNode, between(r, time.Second, 4*time.Second), between(r, 5*time.Millisecond, 100*time.Millisecond)
	case 6, 7:
		e.kind, e.last, e.step, e.nth = crashNode, between(r, 0, 4*time.Second), pick(r, simCommitSteps), 1+r.IntN(5)
	case 8:
		e.kind, e.step, e.nth = failStep, pick(r, simCommitSteps), 1+r.IntN(5)
	case 9:
		e.kind, e.last = freezeKafka, between(r, 100*time.Millisecond, simSession)
	case 10:
		e.kind, e.last = freezeKafka, between(r, simSession, 3*simSession)
	default:
		e.kind, e.router, e.last = freezeLink, pick(r, simRouters), between(r, 100*time.Millisecond, 4*time.Second)
	}
	return e
}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from))).Truncate(time.Microsecond)
}
