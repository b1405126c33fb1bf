package client

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// table is what one router's stream has told, folded into a view as a router folds its nodes' reports. It reads no clock.
//
//  1. Each instance becomes a report of its node (reportOf) and is applied to the view.
//  2. A snapshot, a change of the stores, and a node that goes or comes back after the router had forgotten it make the view
//     anew from what was told last. A view remembers who left and the newest generation that anybody was active under,
//     and the router may have had reason to forget either.
//  3. Whether a node is alive or suspect is the router's word. Nothing expires here: when the router itself falls silent,
//     nobody may decide by the view at all, see MaxViewSilence.
//
// Ages: a router tells a lag as it is when it tells it. The node's report was made LastHeard before, so the report is
// applied at that moment, with the lags that it had then; the view adds the time since. What is not known is how long the
// message was on its way, so the view is a hint, as a router's is: the node judges again.
//
// Invariant: the view's lag of a replica at the moment of receipt is what the router told, and grows from there (I5).
type table struct {
	view     *metadata.View
	told     map[metadata.NodeID]told
	stores   []metadata.StoreInfo
	version  int64
	sequence int64 // of the newest report made here
}

// told is an instance as a message told it, and when that came.
type told struct {
	*iqv1.Instance
	at time.Time
}

func newTable() *table {
	return &table{view: metadata.NewView(metadata.Limits{}), told: map[metadata.NodeID]told{}}
}

// apply folds in a message that came at now. After an error the table is worth nothing.
func (t *table) apply(m *iqv1.WatchMetadataResponse, now time.Time) error {
	if t.version > 0 && m.GetVersion() <= t.version || m.GetVersion() < 1 {
		return fmt.Errorf("version: %d does not follow %d", m.GetVersion(), t.version)
	}
	if t.version == 0 && !m.GetSnapshot() {
		return fmt.Errorf("snapshot: version %d is the first message and is none", m.GetVersion())
	}
	t.version = m.GetVersion()
	anew := m.GetSnapshot() || len(m.GetStores()) > 0 || len(m.GetGone()) > 0
	if m.GetSnapshot() {
		t.told, t.stores = map[metadata.NodeID]told{}, nil
	}
	if len(m.GetStores()) > 0 {
		t.stores = nil
		for _, s := range m.GetStores() {
			t.stores = append(t.stores, routing.StoreFromProto(s))
		}
	}
	for _, id := range m.GetGone() {
		delete(t.told, metadata.NodeID(id))
	}
	changed := make([]told, 0, len(m.GetInstances()))
	for _, in := range m.GetInstances() {
		id := metadata.NodeID(in.GetNode())
		anew = anew || in.GetIncarnation() < t.told[id].GetIncarnation()
		t.told[id] = told{in, now}
		changed = append(changed, t.told[id])
	}
	if !anew {
		// Two nodes that exchange their addresses cannot be told of one after the other.
		if err := t.fold(changed); err == nil && !t.deaf(changed) {
			return nil
		}
	}
	t.view = metadata.NewView(metadata.Limits{})
	return t.fold(slices.Collect(maps.Values(t.told)))
}

// deaf says whether the view takes one for an old active whom the router calls the active: the router has forgotten newer
// generations, as it does when nobody is left of them.
func (t *table) deaf(list []told) bool {
	for _, in := range list {
		for _, s := range in.GetReplicas() {
			if s.GetRole() != iqv1.Role_ROLE_ACTIVE || s.GetState() == iqv1.ReplicaState_REPLICA_STATE_SUSPENDED {
				continue
			}
			p, err := t.view.Partition(metadata.Partition{Store: s.GetStore(), Partition: s.GetPartition()})
			if err == nil && p.Generation() > metadata.Generation(s.GetGeneration()) {
				return true
			}
		}
	}
	return false
}

// fold applies instances to the view: those who hold nothing first, because they give up their addresses.
func (t *table) fold(list []told) error {
	slices.SortFunc(list, func(a, b told) int {
		if a.GetAlive() != b.GetAlive() {
			if b.GetAlive() {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.GetNode(), b.GetNode())
	})
	for _, in := range list {
		t.sequence++
		r, at, err := t.reportOf(in)
		if err != nil {
			return fmt.Errorf("instance %q: %w", in.GetNode(), err)
		}
		v, err := t.view.Apply(r, at)
		if err != nil {
			return err
		}
		if in.GetSuspect() || in.GetRefused() || !in.GetAlive() {
			v = v.Suspect(r.Node, r.Incarnation, in.GetRefused() || !in.GetAlive())
		}
		t.view = v
	}
	return nil
}

// reportOf is the report that the node made, as far as the instance tells, and when the router heard it, by this clock. A
// node that is dead to the router holds nothing and is nowhere.
func (t *table) reportOf(in told) (metadata.Report, time.Time, error) {
	r := metadata.Report{
		Node: metadata.NodeID(in.GetNode()), Incarnation: metadata.Incarnation(in.GetIncarnation()), Sequence: t.sequence,
		Rack: in.GetRack(), Generation: metadata.Generation(in.GetGeneration()), Full: true, Stores: t.stores,
	}
	if !in.GetAlive() {
		return r, in.at, nil
	}
	heard, err := span("last_heard", in.GetLastHeard())
	if err != nil {
		return r, in.at, err
	}
	if r.Interval, err = span("interval", in.GetInterval()); err != nil {
		return r, in.at, err
	}
	r.Address, r.InFlight, r.Draining = in.GetAddress(), in.GetInFlight(), in.GetDraining()
	inputs := make(map[metadata.Partition]metadata.Position, len(in.GetInputs()))
	for _, i := range in.GetInputs() {
		inputs[metadata.Partition{Store: i.GetStore(), Partition: i.GetPartition()}] = routing.PositionFromProto(i.GetInputPosition())
	}
	r.Replicas = make([]metadata.Replica, 0, len(in.GetReplicas()))
	for _, s := range in.GetReplicas() {
		if s.GetPosition() > s.GetEndPosition() {
			continue // nobody applies what is not in the log: it has read another one, from before the topic was made anew
		}
		rep := routing.ReplicaFromProto(s)
		rep.Lag.End = s.GetEndPosition() // a router tells the largest end that it knows, with whatever replica
		rep.Input = inputs[rep.Partition]
		rep.Lag = asReported(rep, in.GetSuspect(), heard)
		r.Replicas = append(r.Replicas, rep)
	}
	return r, in.at.Add(-heard), r.Validate()
}

// asReported takes from a lag what the router has added to it since the node's report; heard is how long ago that was. A
// router adds nothing to the time lag of a serving active that it hears (metadata.PartitionView.LagAt).
func asReported(rep metadata.Replica, suspect bool, heard time.Duration) metadata.LagInfo {
	lag := rep.Lag
	lag.SampleAge = max(0, lag.SampleAge-heard)
	serves := rep.Role == metadata.RoleActive && rep.State == metadata.StateRunning && rep.LeaseValid && !suspect
	if lag.Time != metadata.LagUnknown && !serves {
		lag.Time = max(0, lag.Time-heard)
	}
	return lag
}

// span is a duration that is not negative; absent it is 0.
func span(field string, m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return 0, nil
	}
	d := m.AsDuration()
	if err := m.CheckValid(); err != nil || d < 0 {
		return 0, fmt.Errorf("%s: %s is not 0s or more", field, d)
	}
	return d, nil
}
