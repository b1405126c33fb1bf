package metadata

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const partitionsInTest = 3

// dump is everything that a view says, receipt times apart.
func dump(v *View) string {
	var b strings.Builder
	for _, n := range v.Nodes() {
		fmt.Fprintf(&b, "node %s %s inc=%d seq=%d gen=%d load=%d alive=%t suspect=%t full=%t draining=%t %v %v\n",
			n.ID, n.Address, n.Incarnation, n.Sequence, n.Generation, n.InFlight, n.Alive, n.Suspect, n.hasFull,
			n.Draining, n.Misplaced, n.Dropped)
	}
	for _, s := range v.Stores() {
		fmt.Fprintf(&b, "store %s partitions=%d actual=%d\n", s.Name, s.Partitions, s.ActualPartitions)
	}
	for p := range v.partitions {
		if p.p.held {
			fmt.Fprintf(&b, "%s end=%d gen=%d\n", p.Partition, p.End(), p.Generation())
		}
		for i := range p.Len() {
			h := p.At(i)
			fmt.Fprintf(&b, "  %s active=%t %s %s gen=%d pos=%d lease=%t\n",
				h.Node.ID, h.Active, h.Role, h.State, h.Generation, h.Lag.Position, h.LeaseValid)
		}
	}
	return b.String()
}

// model is what the reports say together, told the slow way: for each question all reports are searched.
func model(reports []Report) string {
	var b strings.Builder
	var nodes []Report // the newest of each node that is still there
	full := map[NodeID]bool{}
	newest := func(id NodeID) (last Report, left, told bool) {
		for _, r := range reports {
			if r.Node != id {
				continue
			}
			if !told || r.Incarnation > last.Incarnation || (r.Incarnation == last.Incarnation && r.Sequence > last.Sequence) {
				last, told = r, true
			}
		}
		for _, r := range reports {
			if r.Node == id && r.Incarnation == last.Incarnation {
				left = left || r.Leaving
				full[id] = full[id] || r.Full
			}
		}
		return last, left, told
	}
	stores := map[string]StoreInfo{}
	var teller Report
	tellerLives := false
	for _, id := range nodeIDs() {
		last, left, told := newest(id)
		if !told {
			continue
		}
		if !left {
			nodes = append(nodes, last)
			fmt.Fprintf(&b, "node %s %s inc=%d seq=%d gen=%d load=%d alive=true suspect=false full=%t draining=%t %v %v\n",
				id, last.Address, last.Incarnation, last.Sequence, last.Generation, last.InFlight, full[id],
				last.Draining, last.Misplaced, last.Dropped)
		}
		for _, r := range reports {
			better := tellerLives == !left && last.Generation > teller.Generation
			if r.Node == id && r.Incarnation == last.Incarnation && len(r.Stores) > 0 &&
				(len(stores) == 0 || (!left && !tellerLives) || better) {
				stores["s"], teller, tellerLives = r.Stores[0], last, !left
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		fmt.Fprintf(&b, "store %s partitions=%d actual=%d\n", name, stores[name].Partitions, stores[name].ActualPartitions)
	}
	for p := range int32(partitionsInTest) {
		b.WriteString(modelPartition(reports, nodes, Partition{Store: "s", Partition: p}))
	}
	return b.String()
}

func modelPartition(reports, nodes []Report, p Partition) string {
	end, generation, held := int64(LagUnknown), Generation(math.MinInt64), false
	for _, r := range reports {
		for _, rep := range r.Replicas {
			if rep.Partition != p || rep.State == StateClosed {
				continue
			}
			held = true
			end = max(end, rep.Lag.End, rep.Lag.Position)
			if rep.Role == RoleActive {
				generation = max(generation, rep.Generation)
			}
		}
	}
	if !held {
		return ""
	}
	type hosted struct {
		node NodeID
		Replica
	}
	var now []hosted
	for _, n := range nodes {
		var last *Replica
		seq := int64(-1)
		for _, r := range reports {
			if r.Node != n.Node || r.Incarnation != n.Incarnation || r.Sequence < seq {
				continue
			}
			i := slices.IndexFunc(r.Replicas, func(rep Replica) bool { return rep.Partition == p })
			switch {
			case i >= 0:
				last, seq = &r.Replicas[i], r.Sequence
			case r.Full:
				last, seq = nil, r.Sequence
			}
		}
		if last != nil && last.State != StateClosed {
			now = append(now, hosted{n.Node, *last})
		}
	}
	serves := func(h hosted) bool { return h.State == StateRunning && h.LeaseValid }
	active := -1
	for i, h := range now {
		claims := h.Role == RoleActive && h.Generation == generation
		if claims && (active < 0 || (serves(h) && !serves(now[active]))) {
			active = i
		}
	}
	var winner NodeID
	first := func(h hosted) int { return 1 }
	if active >= 0 {
		winner = now[active].node
		first = func(h hosted) int {
			if h.node == winner && serves(h) {
				return 0
			}
			return 1
		}
	}
	slices.SortFunc(now, func(a, b hosted) int {
		return cmp.Or(first(a)-first(b), cmp.Compare(b.Lag.Position, a.Lag.Position), cmp.Compare(a.node, b.node))
	})
	var b strings.Builder
	fmt.Fprintf(&b, "%s end=%d gen=%d\n", p, end, generation)
	for _, h := range now {
		if h.Role == RoleActive && h.node != winner {
			h.State, h.LeaseValid = StateSuspended, false
		}
		fmt.Fprintf(&b, "  %s active=%t %s %s gen=%d pos=%d lease=%t\n",
			h.node, h.node == winner, h.Role, h.State, h.Generation, h.Lag.Position, h.LeaseValid)
	}
	return b.String()
}

// witness lives through it all: with nobody alive generations begin anew, and then the order does count.
var witness = Report{Node: "w", Application: "app", Address: "w:1", Full: true}

func nodeIDs() []NodeID { return []NodeID{"a", "b", "c", "w"} }

// randomReports are what a few nodes tell in a few incarnations, each report at most once.
func randomReports(rng *rand.Rand) []Report {
	var reports []Report
	for _, id := range nodeIDs()[:3] {
		generation := Generation(rng.IntN(3))
		for inc := range 1 + rng.IntN(2) {
			for seq := range 1 + rng.IntN(5) {
				generation += Generation(rng.IntN(2))
				r := Report{
					Node: id, Incarnation: Incarnation(inc), Sequence: int64(seq), Application: "app", Address: string(id) + ":1",
					Generation: generation, InFlight: rng.Int32N(5), Full: rng.IntN(3) == 0,
					Draining: rng.IntN(4) == 0,
				}
				if rng.IntN(3) == 0 {
					r.Misplaced = []Misplaced{{Store: "s", TopicPartition: TopicPartition{"in", 0}, Records: rng.Int64N(3)}}
					r.Dropped = []Dropped{{Sink: "out", Records: rng.Int64N(3)}}
				}
				if r.Full {
					r.Stores = []StoreInfo{{Name: "s", Partitions: partitionsInTest, ActualPartitions: partitionsInTest}}
				}
				for p := range int32(partitionsInTest) {
					if rng.IntN(2) == 0 {
						continue
					}
					position := rng.Int64N(20)
					r.Replicas = append(r.Replicas, Replica{
						Partition: Partition{"s", p}, Role: Role(1 + rng.IntN(3)), State: State(1 + rng.IntN(4)),
						Generation: Generation(rng.IntN(5)), LeaseValid: rng.IntN(2) == 0,
						Lag: LagInfo{Position: position, End: position + rng.Int64N(10)},
					})
				}
				reports = append(reports, r)
			}
			if rng.IntN(6) == 0 {
				reports[len(reports)-1] = Report{
					Node: id, Incarnation: Incarnation(inc), Sequence: reports[len(reports)-1].Sequence,
					Application: "app", Generation: generation, Leaving: true,
				}
			}
		}
	}
	return reports
}

func applyAll(t *testing.T, reports []Report) *View {
	t.Helper()
	v := NewView(Limits{})
	for _, r := range reports {
		var err error
		if v, err = v.Apply(r, epoch); err != nil {
			t.Fatalf("report %+v: %v", r, err)
		}
	}
	return v
}

// TestViewIsTheSameInWhateverOrderReportsCome folds random reports in random orders, some of them twice, and compares
// with the model, which knows no order.
func TestViewIsTheSameInWhateverOrderReportsCome(t *testing.T) {
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		reports := randomReports(rng)
		want := model(append([]Report{witness}, reports...))
		for range 4 {
			shuffled := slices.Clone(reports)
			for range rng.IntN(4) {
				shuffled = append(shuffled, reports[rng.IntN(len(reports))])
			}
			rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if got := dump(applyAll(t, append([]Report{witness}, shuffled...))); got != want {
				t.Fatalf("seed %d\nreports:\n%s\ngot:\n%s\nwant:\n%s", seed, describe(shuffled), got, want)
			}
		}
	}
}

func describe(reports []Report) string {
	var b strings.Builder
	for _, r := range reports {
		fmt.Fprintf(&b, "%s inc=%d seq=%d gen=%d full=%t leaving=%t", r.Node, r.Incarnation, r.Sequence, r.Generation, r.Full, r.Leaving)
		for _, rep := range r.Replicas {
			fmt.Fprintf(&b, " [%s %s %s gen=%d pos=%d end=%d]", rep.Partition, rep.Role, rep.State, rep.Generation, rep.Lag.Position, rep.Lag.End)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestPublishedViewIsNeverWritten (I7) keeps every view on the way and looks at the end whether one has changed.
func TestPublishedViewIsNeverWritten(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		v, now := NewView(Limits{}), epoch
		var views []*View
		var said []string
		keep := func() { views, said = append(views, v), append(said, dump(v)) }
		for _, r := range randomReports(rng) {
			now = now.Add(time.Duration(rng.IntN(900)) * time.Millisecond)
			v, _ = v.Apply(r, now)
			keep()
			v = v.Expire(now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond))
			keep()
			v = v.Suspect(r.Node, r.Incarnation, rng.IntN(2) == 0)
			keep()
		}
		for i, w := range views {
			if got := dump(w); got != said[i] {
				t.Fatalf("seed %d: view %d has changed from\n%s\nto\n%s", seed, i, said[i], got)
			}
		}
	}
}

// TestNeverTwoActives looks at every view on the way of random reports and silences.
func TestNeverTwoActives(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		reports := randomReports(rng)
		rng.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
		v, now := NewView(Limits{}), epoch
		for _, r := range reports {
			now = now.Add(time.Duration(rng.IntN(1500)) * time.Millisecond)
			v = v.Expire(now)
			v, _ = v.Apply(r, now)
			for p := range v.partitions {
				actives := 0
				for i := range p.Len() {
					h := p.At(i)
					if h.Active {
						actives++
						if h.Generation < p.Generation() || !h.Node.Alive {
							t.Fatalf("seed %d: %s is active under %d on %s, which cannot be", seed, p.Partition, h.Generation, h.Node.ID)
						}
					}
				}
				if actives > 1 {
					t.Fatalf("seed %d: %s has %d actives", seed, p.Partition, actives)
				}
			}
		}
	}
}
