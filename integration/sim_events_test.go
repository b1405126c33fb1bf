//go:build synctests

package integration

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// simBrokerFaults are what a broker may answer: all of it passes. What says that another process has this node's id
// (FENCED_INSTANCE_ID) is not among them, since a node ends with it.
var simBrokerFaults = []struct {
	request kmsg.Key
	errs    []*kerr.Error
}{
	{kmsg.EndTxn, []*kerr.Error{
		kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.InvalidTxnState,
		kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.RequestTimedOut, kerr.UnknownServerError,
	}},
	{kmsg.InitProducerID, []*kerr.Error{
		kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.RequestTimedOut, kerr.UnknownServerError,
	}},
	{kmsg.AddPartitionsToTxn, []*kerr.Error{
		kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.InvalidTxnState,
		kerr.InvalidProducerEpoch, kerr.OperationNotAttempted, kerr.UnknownTopicOrPartition,
	}},
	{kmsg.AddOffsetsToTxn, []*kerr.Error{
		kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.InvalidProducerEpoch, kerr.InvalidTxnState,
	}},
	{kmsg.TxnOffsetCommit, []*kerr.Error{
		kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.IllegalGeneration, kerr.RequestTimedOut, kerr.UnknownMemberID,
		kerr.RebalanceInProgress, kerr.InvalidProducerEpoch, kerr.UnknownTopicOrPartition,
	}},
	{kmsg.OffsetFetch, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.UnstableOffsetCommit, kerr.UnknownServerError}},
	{kmsg.OffsetCommit, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.RequestTimedOut}},
	{kmsg.FindCoordinator, []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress}},
	{kmsg.Heartbeat, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.RebalanceInProgress, kerr.UnknownMemberID, kerr.IllegalGeneration}},
	{kmsg.JoinGroup, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.UnknownMemberID, kerr.UnknownServerError}},
	{kmsg.SyncGroup, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.RebalanceInProgress, kerr.UnknownMemberID, kerr.IllegalGeneration}},
	{kmsg.LeaveGroup, []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable}},
	{kmsg.Metadata, []*kerr.Error{kerr.LeaderNotAvailable, kerr.UnknownServerError}},
	{kmsg.Fetch, []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownServerError, kerr.KafkaStorageError, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
		kerr.OffsetNotAvailable, kerr.ReplicaNotAvailable, kerr.CorruptMessage, kerr.UnknownTopicOrPartition, kerr.OffsetOutOfRange,
	}},
	{kmsg.ListOffsets, []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.OffsetNotAvailable, kerr.UnknownServerError, kerr.KafkaStorageError, kerr.UnknownTopicOrPartition,
	}},
	{kmsg.Produce, []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.KafkaStorageError,
		kerr.CorruptMessage, kerr.UnknownTopicOrPartition, kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch, kerr.InvalidRecord,
	}},
}

// simLost are the requests that get lost, or whose replies do.
var simLost = []kmsg.Key{
	kmsg.EndTxn, kmsg.EndTxn, kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.OffsetFetch, kmsg.Heartbeat,
	kmsg.JoinGroup, kmsg.SyncGroup, kmsg.LeaveGroup, kmsg.Fetch, kmsg.ListOffsets, kmsg.Produce, kmsg.Produce, kmsg.Metadata,
}

// nodeEvents are what happens to a node, one thing after the other.
func (p *simPlan) nodeEvents(r *rand.Rand, node string) {
	for t := simWarmUp + between(r, 0, 4*time.Second); t < simWarmUp+simFaults; {
		e := p.nodeEvent(r, node, t)
		p.events = append(p.events, e)
		t += e.last + between(r, 500*time.Millisecond, 4*time.Second)
	}
}

func (p *simPlan) nodeEvent(r *rand.Rand, node string, at time.Duration) simEvent {
	e := simEvent{who: node, at: at, wipe: r.IntN(8) == 0}
	switch r.IntN(19) {
	case 0, 1:
		e.kind, e.last = killNode, between(r, 0, 5*time.Second)
		return e
	case 2:
		e.kind, e.last = stopNode, between(r, 0, 3*time.Second)
		return e
	case 3:
		e.kind, e.last = drainNode, between(r, 0, time.Second)
		return e
	case 4, 5:
		e.kind, e.last, e.step, e.nth = crashNode, between(r, 0, 4*time.Second), pick(r, simCommitSteps), 1+r.IntN(5)
		return e
	case 6:
		e.kind, e.last, e.step, e.nth = crashNode, between(r, 0, 4*time.Second), pick(r, simGiveSteps), 1
		return e
	case 7, 8:
		e.kind, e.last, e.step, e.nth = crashStart, between(r, 0, 3*time.Second), pick(r, simStartSteps), 1+r.IntN(4)
		return e
	}
	e.wipe = false
	switch r.IntN(11) {
	case 0:
		e.kind, e.last = freezeNode, between(r, 100*time.Millisecond, simLease)
	case 1:
		e.kind, e.last = freezeNode, between(r, simLease, 2*simSession)
	case 2:
		e.kind, e.last, e.delay = slowNode, between(r, time.Second, 4*time.Second), between(r, 5*time.Millisecond, 100*time.Millisecond)
	case 3:
		e.kind = resetNode
	case 4:
		e.kind, e.step, e.nth = failStep, pick(r, simCommitSteps), 1+r.IntN(5)
	case 5:
		e.kind, e.step, e.nth = failStep, pick(r, append(simGiveSteps[:1:1], simStartSteps...)), 1+r.IntN(3)
	case 6:
		e.kind, e.last, e.way = freezeKafka, between(r, 100*time.Millisecond, simSession), simWay(r.IntN(3))
	case 7:
		e.kind, e.last, e.way = freezeKafka, between(r, simSession, 3*simSession), simWay(r.IntN(3))
	case 8:
		e.kind, e.last, e.way, e.broker = freezeBroker, between(r, 100*time.Millisecond, 2*simSession), simWay(r.IntN(3)), r.IntN(p.brokers)
	case 9:
		e.kind, e.last = fullDisk, between(r, 100*time.Millisecond, 4*time.Second)
	default:
		e.kind, e.other, e.last, e.way = freezeLink, pick(r, simRouters), between(r, 100*time.Millisecond, 4*time.Second), simWay(r.IntN(3))
	}
	return e
}

// routerEvents are what happens to routers.
func (p *simPlan) routerEvents(r *rand.Rand) {
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
}

// networkEvents are links that fail beside what happens to the nodes.
func (p *simPlan) networkEvents(r *rand.Rand) {
	for t := simWarmUp + between(r, 0, 6*time.Second); t < simWarmUp+simFaults; t += between(r, 500*time.Millisecond, 6*time.Second) {
		e := simEvent{kind: freezeClient, at: t, last: between(r, 50*time.Millisecond, 2*time.Second), way: simWay(r.IntN(3))}
		switch r.IntN(3) {
		case 0:
			e.who = pick(r, simRouters)
		case 1:
			e.who = pick(r, simNodes)
		default:
			e.kind, e.who, e.other = freezeLink, simNodes[0], simNodes[1] // a survivor asks the lost one itself before it evicts it
			if i := r.IntN(3); i > 0 {
				e.who, e.other = simNodes[i-1], simNodes[2]
			}
		}
		p.events = append(p.events, e)
	}
}

// brokerEvents are what the brokers do.
func (p *simPlan) brokerEvents(r *rand.Rand) {
	for t := simWarmUp + between(r, 0, 2*time.Second); t < simWarmUp+simFaults; t += between(r, 150*time.Millisecond, 2500*time.Millisecond) {
		e := simEvent{at: t}
		switch r.IntN(9) {
		case 0:
			e.kind, e.request, e.count = dropRequest, pick(r, simLost), 1+r.IntN(4)
		case 1, 2:
			e.kind, e.request, e.count = loseReply, pick(r, simLost), 1+r.IntN(2)
		case 3:
			e.kind, e.who, e.last = stallChangelog, pick(r, p.stores()), between(r, 300*time.Millisecond, 2500*time.Millisecond)
		case 4:
			if p.brokers > 1 {
				e.kind = moveLeaders
				if r.IntN(2) == 0 {
					e.kind = moveGroups
				}
				break
			}
			fallthrough
		default:
			f := pick(r, simBrokerFaults)
			e.kind, e.request, e.err, e.count = brokerFault, f.request, pick(r, f.errs), 1+r.IntN(6)
		}
		p.events = append(p.events, e)
	}
}
