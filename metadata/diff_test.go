package metadata

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// late is when the tests look at views: ages count from one moment, so that equal views have equal ages.
var late = epoch.Add(time.Hour)

// told lists what is told of a store and its hosts, or of all.
func told(v *View, store string) []Instance {
	if store == "" {
		return v.Instances(late)
	}
	return v.instances(late, func(h Hosted) bool { return h.Store == store }, hosting)
}

// facts is all of an instance but figures, and figures is the rest.
func facts(in *Instance) string {
	var b strings.Builder
	fmt.Fprintln(&b, in.ID, in.Application, in.Address, in.Rack, in.Incarnation, in.Generation, in.Interval, in.Draining,
		in.Alive, in.Suspect, in.Refused, in.ActivePartitions, in.StandbyPartitions, in.ActiveStores, in.StandbyStores)
	for _, r := range in.Replicas {
		fmt.Fprintln(&b, r.Partition, r.Role, r.State, r.Generation, r.LeaseValid, r.Active)
	}
	return b.String()
}

func figures(in *Instance) string {
	var b strings.Builder
	fmt.Fprintln(&b, in.Sequence, in.InFlight, in.LastHeard, in.Misplaced, in.Dropped)
	for _, r := range in.Replicas {
		fmt.Fprintln(&b, r.Lag, r.Input)
	}
	return b.String()
}

func slowStores(v *View, store string) []StoreInfo {
	return slices.DeleteFunc(v.Stores(), func(s StoreInfo) bool { return store != "" && s.Name != store })
}

// holds are a dead node's partitions, which its instance does not list as replicas: where no topic is known of a store,
// nothing shows that it holds one more.
func holds(v *View, store string, in *Instance) string {
	var b strings.Builder
	for p := range v.partitions {
		for i := range p.Len() {
			if h := p.At(i); h.Node.ID == in.ID && !in.Alive && (store == "" || h.Store == store) {
				fmt.Fprintln(&b, p.Partition, h.Role == RoleActive)
			}
		}
	}
	return b.String()
}

// slowDiff compares all that both views tell.
func slowDiff(older, newer *View, store string) Changes {
	was, is := map[NodeID]*Instance{}, map[NodeID]*Instance{}
	for _, in := range told(older, store) {
		was[in.ID] = &in
	}
	var c Changes
	for _, in := range told(newer, store) {
		is[in.ID] = &in
		switch old := was[in.ID]; {
		case old == nil || facts(old)+holds(older, store, old) != facts(&in)+holds(newer, store, &in):
			c.Told = append(c.Told, in.ID)
		case figures(old) != figures(&in):
			c.Figures = append(c.Figures, in.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(was)) {
		if is[id] == nil {
			c.Gone = append(c.Gone, id)
		}
	}
	c.Stores = !reflect.DeepEqual(slowStores(older, store), slowStores(newer, store))
	return c
}

// table is what somebody keeps who is told of changes.
type table struct {
	store     string
	seen      *View
	instances map[NodeID]Instance
	stores    []StoreInfo
}

func newTable(store string) *table {
	return &table{store: store, seen: NewView(Limits{}), instances: map[NodeID]Instance{}}
}

func (tb *table) follow(v *View) {
	c := Diff(tb.seen, v, tb.store)
	for _, id := range c.Gone {
		delete(tb.instances, id)
	}
	for _, in := range v.Changed(c, tb.store, late) {
		tb.instances[in.ID] = in
	}
	if c.Stores {
		tb.stores = slowStores(v, tb.store)
	}
	tb.seen = v
}

// check fails unless the table is what the view tells now.
func (tb *table) check(t *testing.T, seed uint64, v *View) {
	t.Helper()
	byID := func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) }
	got := slices.SortedFunc(maps.Values(tb.instances), byID)
	want := told(v, tb.store)
	if len(got) != len(want) {
		t.Fatalf("seed %d, store %q: the table has %d instances, the view %d", seed, tb.store, len(got), len(want))
	}
	for i := range want {
		g, w := facts(&got[i])+figures(&got[i]), facts(&want[i])+figures(&want[i])
		if g != w {
			t.Fatalf("seed %d, store %q: the table has\n%s, the view\n%s", seed, tb.store, g, w)
		}
	}
	if stores := slowStores(v, tb.store); len(stores)+len(tb.stores) > 0 && !reflect.DeepEqual(tb.stores, stores) {
		t.Fatalf("seed %d, store %q: the table has stores %v, the view %v", seed, tb.store, tb.stores, stores)
	}
}

// randomSteps gives each view on the way of random reports, silences and lost connections, to fn.
func randomSteps(seed uint64, fn func(v *View)) {
	rng := rand.New(rand.NewPCG(seed, 4))
	reports := randomReports(rng)
	if rng.IntN(2) == 0 {
		rng.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
	}
	v, now := NewView(Limits{DeadKept: 5 * time.Second}), epoch
	for i, r := range reports {
		now = now.Add(time.Duration(rng.IntN(1500)) * time.Millisecond)
		if rng.IntN(4) == 0 { // a second store, which comes and goes
			r.Stores = append(r.Stores, StoreInfo{Name: "t", Partitions: 2, SourceTopics: []string{"in", fmt.Sprint("x", rng.IntN(2))}})
			r.Replicas = append(r.Replicas, Replica{Partition: Partition{"t", 1}, Role: RoleActive, State: StateRunning, Input: Position{{"in", 1}: rng.Int64N(3)}})
		}
		if rng.IntN(3) == 0 {
			fn(v)
		}
		v, _ = v.Apply(r, now)
		fn(v)
		switch rng.IntN(6) {
		case 0:
			now = now.Add(time.Duration(rng.IntN(9000)) * time.Millisecond)
			v = v.Expire(now)
		case 1:
			v = v.Suspect(reports[rng.IntN(i+1)].Node, Incarnation(rng.IntN(2)), rng.IntN(2) == 0)
		}
		fn(v)
	}
}

// TestDiffEqualsItsSlowTwin, between neighbours and across many views, of one store and of all.
func TestDiffEqualsItsSlowTwin(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var views []*View
		randomSteps(seed, func(v *View) { views = append(views, v) })
		for i, v := range views {
			for _, older := range []*View{views[max(0, i-1)], views[rng.IntN(i+1)], v} {
				for _, store := range []string{"", "s", "t"} {
					if got, want := Diff(older, v, store), slowDiff(older, v, store); !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d, view %d, store %q: got %+v, want %+v\nfrom\n%s\nto\n%s", seed, i, store, got, want, dump(older), dump(v))
					}
				}
			}
		}
	}
}

// TestChangesMakeTheTableThatTheViewTells, however many views are passed over between two looks.
func TestChangesMakeTheTableThatTheViewTells(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 6))
		tables := []*table{newTable(""), newTable("s"), newTable("t")}
		randomSteps(seed, func(v *View) {
			for _, tb := range tables {
				if rng.IntN(3) == 0 {
					tb.follow(v)
					tb.check(t, seed, v)
				}
			}
		})
	}
}

// BenchmarkDiff is one watcher's look at one heartbeat of one of 12 nodes that hold 1,000 replicas each.
func BenchmarkDiff(b *testing.B) {
	v := NewView(Limits{})
	for n := range 12 {
		v, _ = v.Apply(bigReport(n, 1000), epoch)
	}
	r := bigReport(0, 1000)
	r.Full, r.Stores, r.Sequence = false, nil, 2
	for i := range r.Replicas {
		r.Replicas[i].Lag.Position++
	}
	next, _ := v.Apply(r, epoch.Add(time.Second))
	b.ReportAllocs()
	for b.Loop() {
		if c := Diff(v, next, ""); c.Urgent() || c.Empty() {
			b.Fatalf("%+v", c)
		}
	}
}
