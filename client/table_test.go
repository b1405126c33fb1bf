package client

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// fakeRouter keeps a view from random reports and tells it as a router does: one snapshot, then whatever differs from what it has
// told.
type fakeRouter struct {
	rng        *rand.Rand
	view       *metadata.View
	now        time.Time
	nodes      map[metadata.NodeID]*fakeNode
	stores     []metadata.StoreInfo
	generation metadata.Generation
	version    int64
	told       map[string]*iqv1.Instance
	toldStores []*iqv1.StoreInfo
}

// fakeNode is a node as it reports itself.
type fakeNode struct {
	metadata.Report
	silent bool
}

const fakePartitions = 3

func newFakeRouter(seed uint64) *fakeRouter {
	f := &fakeRouter{
		rng: rand.New(rand.NewPCG(seed, 4)), view: metadata.NewView(metadata.Limits{}), now: time.Unix(1_700_000_000, 0),
		nodes: map[metadata.NodeID]*fakeNode{}, told: map[string]*iqv1.Instance{}, generation: 1,
	}
	f.stores = []metadata.StoreInfo{{Name: "s", Partitions: fakePartitions, ActualPartitions: fakePartitions, Partitioner: "murmur2", ChangelogID: "1"}}
	for i := range 2 + f.rng.IntN(3) {
		id := metadata.NodeID(rune('a' + i))
		f.nodes[id] = &fakeNode{Report: metadata.Report{Node: id, Incarnation: 1, Address: string(id) + ":1", Interval: 100 * time.Millisecond}}
	}
	return f
}

func (f *fakeRouter) ids() []metadata.NodeID {
	var ids []metadata.NodeID
	for id := range f.nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// step lets some time pass and something happen.
func (f *fakeRouter) step(t *testing.T) {
	t.Helper()
	f.now = f.now.Add(time.Duration(f.rng.IntN(150)) * time.Millisecond)
	ids := f.ids()
	n := f.nodes[ids[f.rng.IntN(len(ids))]]
	switch f.rng.IntN(30) {
	case 0: // it starts anew
		n.Incarnation, n.Sequence, n.silent = n.Incarnation+1, 0, false
	case 1:
		n.silent = !n.silent
	case 2:
		n.Leaving = true
		f.report(t, n)
		n.Leaving, n.Incarnation, n.Sequence = false, n.Incarnation+1, 0
	case 3:
		f.generation++
	case 4:
		f.view = f.view.Suspect(n.Node, n.Incarnation, f.rng.IntN(2) == 0)
	case 5:
		f.stores[0].ActualPartitions = fakePartitions + f.rng.Int32N(2)
	case 6: // two exchange their addresses: both start anew, when the router has given them up
		other := f.nodes[ids[f.rng.IntN(len(ids))]]
		if f.rng.IntN(4) == 0 && other != n {
			f.now = f.now.Add(3 * time.Second)
			f.view = f.view.Expire(f.now)
			n.Address, other.Address = other.Address, n.Address
			n.Incarnation, other.Incarnation, n.Sequence, other.Sequence = n.Incarnation+1, other.Incarnation+1, 0, 0
		}
	}
	for _, id := range ids {
		if n := f.nodes[id]; !n.silent && f.rng.IntN(3) > 0 {
			f.report(t, n)
		}
	}
	f.view = f.view.Expire(f.now)
}

func (f *fakeRouter) report(t *testing.T, n *fakeNode) {
	t.Helper()
	n.Sequence++
	r := n.Report
	r.Full, r.Generation, r.Stores, r.InFlight = true, f.generation, slices.Clone(f.stores), f.rng.Int32N(4)
	r.Rack = []string{"", "r1"}[f.rng.IntN(2)]
	for p := range int32(fakePartitions) {
		if f.rng.IntN(4) == 0 {
			continue
		}
		rep := metadata.Replica{
			Partition: metadata.Partition{Store: "s", Partition: p}, Role: metadata.Role(1 + f.rng.IntN(3)), State: metadata.State(1 + f.rng.IntN(3)),
			Generation: f.generation - metadata.Generation(f.rng.IntN(2)), LeaseValid: f.rng.IntN(4) > 0,
			Lag: metadata.LagInfo{Position: f.rng.Int64N(100), Time: time.Duration(f.rng.IntN(2000)) * time.Millisecond, SampleAge: time.Duration(f.rng.IntN(6000)) * time.Millisecond},
		}
		rep.Lag.End = rep.Lag.Position + f.rng.Int64N(20)
		rep.Lag.Offsets = rep.Lag.End - rep.Lag.Position
		if f.rng.IntN(6) == 0 {
			rep.Lag.Time = metadata.LagUnknown
		}
		if f.rng.IntN(8) == 0 {
			rep.Lag.End, rep.Lag.Offsets, rep.Lag.SampleAge = metadata.LagUnknown, metadata.LagUnknown, 0
		}
		if f.rng.IntN(2) == 0 {
			rep.Input = metadata.Position{{Topic: "in", Partition: p}: f.rng.Int64N(10)}
		}
		r.Replicas = append(r.Replicas, rep)
	}
	if v, err := f.view.Apply(r, f.now); err == nil { // two at one address: one of them is refused
		f.view = v
	}
}

// tell is the next message: whatever differs from what was told before.
func (f *fakeRouter) tell(snapshot bool) *iqv1.WatchMetadataResponse {
	f.version++
	m := &iqv1.WatchMetadataResponse{Version: f.version, Snapshot: snapshot}
	if snapshot {
		f.told, f.toldStores = map[string]*iqv1.Instance{}, nil
	}
	here := map[string]bool{}
	for _, in := range f.view.Instances(f.now) {
		p := instanceProto(&in)
		here[p.GetNode()] = true
		if !proto.Equal(p, f.told[p.GetNode()]) {
			m.Instances = append(m.Instances, p)
			f.told[p.GetNode()] = p
		}
	}
	f.rng.Shuffle(len(m.GetInstances()), func(i, j int) { m.Instances[i], m.Instances[j] = m.GetInstances()[j], m.GetInstances()[i] })
	for id := range f.told {
		if !here[id] {
			m.Gone = append(m.Gone, id)
			delete(f.told, id)
		}
	}
	var stores []*iqv1.StoreInfo
	for _, s := range f.view.Stores() {
		stores = append(stores, routing.StoreToProto(s))
	}
	if !slices.EqualFunc(stores, f.toldStores, func(a, b *iqv1.StoreInfo) bool { return proto.Equal(a, b) }) {
		m.Stores, f.toldStores = stores, stores
	}
	return m
}

func instanceProto(in *metadata.Instance) *iqv1.Instance {
	p := &iqv1.Instance{
		Node: string(in.ID), Address: in.Address, Rack: in.Rack, Alive: in.Alive, Suspect: in.Suspect, Refused: in.Refused,
		Incarnation: int64(in.Incarnation), Generation: int64(in.Generation), Sequence: in.Sequence, InFlight: in.InFlight,
		Interval: durationpb.New(in.Interval), LastHeard: durationpb.New(in.LastHeard),
	}
	for i := range in.Replicas {
		s := &in.Replicas[i]
		p.Replicas = append(p.Replicas, routing.StatusToProto(s))
		if s.Input != nil {
			p.Inputs = append(p.Inputs, &iqv1.ReplicaInput{Store: s.Store, Partition: s.Partition.Partition, InputPosition: routing.PositionToProto(s.Input)})
		}
	}
	return p
}

// TestClientDecidesAsItsRouterDoes: at the moment of a message, and later as long as the router hears nothing new either, every
// decision by the client's view is that by the router's, whatever happened before; so no lag that it assumes is smaller
// (I5). What the dead held is not told, so of them nothing is compared.
func TestClientDecidesAsItsRouterDoes(t *testing.T) {
	compared := map[routing.Verdict]int{}
	for seed := range uint64(200) {
		f, told := newFakeRouter(seed), newTable()
		for i := range 40 {
			f.step(t)
			if i > 0 && f.rng.IntN(3) == 0 {
				continue // several changes in one message
			}
			received := time.Unix(9_000, 0).Add(f.now.Sub(time.Unix(0, 0))) // another machine, another clock
			if err := told.apply(f.tell(i == 0 || f.rng.IntN(20) == 0), received); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, i, err)
			}
			for _, later := range []time.Duration{0, 70 * time.Millisecond, 7 * time.Second} {
				q := f.query()
				want, wantErr := routing.Decide(f.view, q, f.now.Add(later))
				got, gotErr := routing.Decide(told.view, q, received.Add(later))
				if a, b := judged(&want), judged(&got); a != b {
					t.Fatalf("seed %d step %d %s later, %s\nrouter %v\n%sclient %v\n%s", seed, i, later, q.Policy, wantErr, a, gotErr, b)
				}
				for _, c := range got.Candidates {
					compared[c.Verdict]++
				}
			}
		}
	}
	for v := routing.VerdictEligible; v <= routing.VerdictPosition; v++ {
		// Replicas of dead nodes and of another log are not in the client's view.
		if n := compared[v]; n < 50 && v != routing.VerdictDead {
			t.Errorf("verdict %d was met only %d times", v, n)
		}
	}
}

func (f *fakeRouter) query() routing.Query {
	q := routing.Query{Patient: f.rng.IntN(4) == 0, Policy: routing.Unbounded(routing.Mode(1 + f.rng.IntN(4)))}
	q.Store, q.Partition.Partition = "s", f.rng.Int32N(fakePartitions)
	if f.rng.IntN(3) == 0 {
		q.Policy.MaxStaleness = time.Duration(f.rng.IntN(2500)) * time.Millisecond
	}
	if f.rng.IntN(3) == 0 {
		q.Policy.MaxOffsetLag = f.rng.Int64N(60)
	}
	if f.rng.IntN(3) == 0 {
		q.Policy.AtLeast = metadata.Position{{Topic: "in", Partition: q.Partition.Partition}: f.rng.Int64N(12)}
	}
	q.Policy.Prefer, q.Policy.Rack = routing.Prefer(f.rng.IntN(3)), "r1"
	return q
}

// judged is a decision with the numbers behind it, but for the dead. An active of an old generation is told as suspended, and
// whether it would be the active if nobody had been it since is not told.
func judged(d *routing.Decision) string {
	var b strings.Builder
	for _, c := range d.Candidates {
		if c.Verdict == routing.VerdictNotRunning && c.State == metadata.StateSuspended {
			c.Verdict = routing.VerdictNotActive
		}
		if c.Verdict != routing.VerdictDead {
			fmt.Fprintf(&b, "%d %s %s verdict %d %s %s serves %t %+v\n", c.Rank, c.Node.ID, c.Node.Address, c.Verdict, c.Role, c.State, c.Serves(), c.Lag)
		}
	}
	return b.String()
}

// TestPositionOfAnotherLogIsNoReplica: a node that still reads a changelog from before its topic was made anew looks far ahead
// of everybody, and as if it had no lag.
func TestPositionOfAnotherLogIsNoReplica(t *testing.T) {
	running := func(node string, position, end int64) *iqv1.Instance {
		return &iqv1.Instance{Node: node, Address: node + ":1", Alive: true, Replicas: []*iqv1.ReplicaStatus{{
			Store: "s", Role: iqv1.Role_ROLE_STANDBY, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, Position: position, EndPosition: end,
			OffsetLag: new(max(0, end-position)),
		}}}
	}
	told, now := newTable(), time.Unix(1, 0)
	err := told.apply(&iqv1.WatchMetadataResponse{
		Version: 1, Snapshot: true, Stores: []*iqv1.StoreInfo{{Name: "s", Partitions: 1}},
		Instances: []*iqv1.Instance{running("old", 5000, 10), running("new", 8, 10)},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	q := routing.Query{Policy: routing.Policy{Mode: routing.ModeAny, MaxStaleness: routing.NoBound, MaxOffsetLag: 5}}
	q.Store = "s"
	d, err := routing.Decide(told.view, q, now)
	if err != nil || len(d.Candidates) != 1 || d.Candidates[0].Node.ID != "new" || d.Candidates[0].Lag.Offsets != 2 {
		t.Errorf("%v\n%s", err, judged(&d))
	}
}

func TestNonsenseIsRefusedByFieldAndValue(t *testing.T) {
	first := func(in *iqv1.Instance) []*iqv1.WatchMetadataResponse {
		return []*iqv1.WatchMetadataResponse{{Version: 1, Snapshot: true, Instances: []*iqv1.Instance{in}}}
	}
	for want, messages := range map[string][]*iqv1.WatchMetadataResponse{
		"version: 0 does not":       {{Snapshot: true}},
		"version: 3 does not fol":   {{Version: 3, Snapshot: true}, {Version: 3}},
		"snapshot: version 1 is":    {{Version: 1}},
		`"a": last_heard: -1s is`:   first(&iqv1.Instance{Node: "a", Address: "a:1", Alive: true, LastHeard: durationpb.New(-time.Second)}),
		`"a": interval: -1s is not`: first(&iqv1.Instance{Node: "a", Address: "a:1", Alive: true, Interval: durationpb.New(-time.Second)}),
		`"a": address: "" is not`:   first(&iqv1.Instance{Node: "a", Alive: true}),
		`"": node: "" is not`:       first(&iqv1.Instance{Address: "a:1", Alive: true}),
		"role: role(0) is none": first(&iqv1.Instance{
			Node: "a", Address: "a:1", Alive: true, Replicas: []*iqv1.ReplicaStatus{{Store: "s", State: iqv1.ReplicaState_REPLICA_STATE_RUNNING}},
		}),
		`two nodes at one address`: {{Version: 1, Snapshot: true, Instances: []*iqv1.Instance{
			{Node: "a", Address: "x:1", Alive: true}, {Node: "b", Address: "x:1", Alive: true},
		}}},
	} {
		told := newTable()
		var err error
		for _, m := range messages {
			err = told.apply(m, time.Unix(1, 0))
		}
		if want == `two nodes at one address` {
			want = `live node "a" has`
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
