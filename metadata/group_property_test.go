package metadata

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// group is a small group as it really is: who has which role under which generation, and what each node says of itself.
type group struct {
	rng        *rand.Rand
	generation Generation
	actives    map[Generation][]NodeID // by partition, as each generation's leader gave them out
	standbys   map[Generation][]NodeID
	ends       []int64
	members    []*member
	reports    []Report // in the order in which they were sent
}

// member is one node of the group.
type member struct {
	id          NodeID
	incarnation Incarnation
	sequence    int64
	generation  Generation // the newest that it has joined
	replicas    map[int32]*Replica
}

const (
	groupPartitions = 6
	roleChanges     = 1000
)

func newGroup(rng *rand.Rand) *group {
	g := &group{rng: rng, actives: map[Generation][]NodeID{}, standbys: map[Generation][]NodeID{}, ends: make([]int64, groupPartitions)}
	for i := range 5 {
		g.members = append(g.members, &member{id: NodeID(fmt.Sprintf("n%d", i)), incarnation: 1, replicas: map[int32]*Replica{}})
	}
	g.rebalance()
	return g
}

// rebalance gives every partition to one active and one standby under a new generation. It returns how many roles that
// changes.
func (g *group) rebalance() (changed int) {
	before := g.generation
	g.generation += 1 + Generation(g.rng.IntN(2))
	for p := range groupPartitions {
		two := g.rng.Perm(len(g.members))
		active, standby := g.members[two[0]].id, g.members[two[1]].id
		if before > 0 && g.rng.IntN(2) == 0 {
			active, standby = g.actives[before][p], g.standbys[before][p]
		}
		g.actives[g.generation] = append(g.actives[g.generation], active)
		g.standbys[g.generation] = append(g.standbys[g.generation], standby)
		if before == 0 || g.actives[before][p] != active {
			changed++
		}
	}
	return changed
}

// join lets a member hear of the newest generation, late or never.
func (g *group) join(m *member) {
	m.generation = g.generation
	for p := range int32(groupPartitions) {
		role := Role(0)
		switch m.id {
		case g.actives[g.generation][p]:
			role = RoleActive
		case g.standbys[g.generation][p]:
			role = RoleStandby
		}
		rep := m.replicas[p]
		switch {
		case role == 0:
			delete(m.replicas, p)
			continue
		case rep == nil || rep.Role != role:
			rep = &Replica{Partition: Partition{"s", p}, State: StateRestoring, Lag: LagInfo{Position: g.ends[p] * int64(g.rng.IntN(2))}}
		}
		rep.Role, rep.Generation, rep.LeaseValid = role, m.generation, role == RoleActive
		m.replicas[p] = rep
	}
}

// restart ends a member, with a goodbye or without, and starts it again with nothing.
func (g *group) restart(m *member) {
	if g.rng.IntN(2) == 0 {
		m.sequence++
		g.reports = append(g.reports, Report{
			Node: m.id, Incarnation: m.incarnation, Sequence: m.sequence, Application: "app", Generation: m.generation, Leaving: true,
		})
	}
	m.incarnation++
	m.sequence, m.generation, m.replicas = 0, 0, map[int32]*Replica{}
	g.report(m, true)
}

// work moves the log on, and each member some way after it.
func (g *group) work() {
	for p := range g.ends {
		g.ends[p] += g.rng.Int64N(4)
	}
	for _, m := range g.members {
		for p := range int32(groupPartitions) {
			if rep := m.replicas[p]; rep != nil && g.rng.IntN(2) == 0 {
				rep.Lag.Position += g.rng.Int64N(g.ends[p] - rep.Lag.Position + 1)
				rep.Lag.End = g.ends[p]
				rep.State = StateRunning
				rep.LeaseValid = rep.Role == RoleActive && g.rng.IntN(8) > 0
			}
		}
	}
}

// report sends what a member says of itself: all of it, or some.
func (g *group) report(m *member, full bool) {
	m.sequence++
	r := Report{
		Node: m.id, Incarnation: m.incarnation, Sequence: m.sequence, Application: "app", Address: string(m.id) + ":1",
		Generation: m.generation, InFlight: g.rng.Int32N(5), Draining: g.rng.IntN(10) == 0, Full: full,
	}
	if r.Full {
		r.Stores = []StoreInfo{{Name: "s", Partitions: groupPartitions, ActualPartitions: groupPartitions, ChangelogID: "id", SourceTopics: []string{"in"}}}
	}
	for p := range int32(groupPartitions) {
		if rep := m.replicas[p]; rep != nil && (r.Full || g.rng.IntN(3) > 0) {
			r.Replicas = append(r.Replicas, *rep)
		}
	}
	g.reports = append(g.reports, r)
}

// live lets the group live through its role changes, and all come to rest in the end.
func (g *group) live() []Report {
	for changed := 0; changed < roleChanges; {
		g.work()
		m := g.members[g.rng.IntN(len(g.members))]
		switch g.rng.IntN(12) {
		case 0, 1:
			changed += g.rebalance()
		case 2, 3, 4:
			g.join(m)
			g.report(m, true) // what it has lost is gone
		case 5:
			if g.rng.IntN(3) == 0 {
				g.restart(m)
			}
		default:
			g.report(m, g.rng.IntN(4) == 0)
		}
	}
	for _, m := range g.members {
		g.join(m)
		g.report(m, true)
	}
	return g.reports
}

// orders are ways in which the reports may come: as sent, a little late and some of them twice, in any order, backwards.
func (g *group) orders() map[string][]Report {
	shuffled := slices.Clone(g.reports)
	g.rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	backwards := slices.Clone(g.reports)
	slices.Reverse(backwards)
	var jittered []Report
	for window := range slices.Chunk(g.reports, 20) {
		window = slices.Concat(window, window[:len(window)/3])
		g.rng.Shuffle(len(window), func(i, j int) { window[i], window[j] = window[j], window[i] })
		jittered = append(jittered, window...)
	}
	return map[string][]Report{"as sent": g.reports, "jittered": jittered, "shuffled": shuffled, "backwards": backwards}
}

// checkActives holds a view to what the group's leaders have really given out.
func (g *group) checkActives(v *View, newest map[Partition]Generation) error {
	for p := range v.partitions {
		actives := 0
		for i := range p.Len() {
			h := p.At(i)
			if h.Serves() && !h.Active {
				return fmt.Errorf("%s serves on %s, which is not its active", p.Partition, h.Node.ID)
			}
			if !h.Active {
				continue
			}
			actives++
			if h.Role != RoleActive || g.actives[h.Generation][p.Partition.Partition] != h.Node.ID {
				return fmt.Errorf("%s is shown as %s, active under %d on %s, where it never was", p.Partition, h.Role, h.Generation, h.Node.ID)
			}
			if h.Generation < newest[p.Partition] {
				return fmt.Errorf("%s is active under %d again after %d", p.Partition, h.Generation, newest[p.Partition])
			}
			newest[p.Partition] = h.Generation
		}
		if actives > 1 {
			return fmt.Errorf("%s has %d actives", p.Partition, actives)
		}
	}
	return nil
}

// checkRest holds the last view to what the members are in the end.
func (g *group) checkRest(v *View) error {
	for _, m := range g.members {
		for p := range int32(groupPartitions) {
			pv, err := v.Partition(Partition{"s", p})
			if err != nil {
				return err
			}
			var shown *Hosted
			for i := range pv.Len() {
				if h := pv.At(i); h.Node.ID == m.id {
					shown = &h
				}
			}
			is := m.replicas[p]
			switch {
			case (shown == nil) != (is == nil):
				return fmt.Errorf("%s: %s/%d is shown as %v and is %v", m.id, "s", p, shown, is)
			case is != nil && (shown.Active != (is.Role == RoleActive) || shown.Role != is.Role || shown.State != is.State ||
				shown.Generation != is.Generation || shown.LeaseValid != is.LeaseValid || shown.Lag != is.Lag):
				return fmt.Errorf("%s: %s/%d is shown as %+v and is %+v", m.id, "s", p, shown.Replica, *is)
			}
		}
	}
	return nil
}

// TestRoleChangesRestartsAndReorderedReportsGiveOneView lives through 1,000 changes of roles and many restarts, with
// the reports in several orders and some of them twice. In each view on the way a partition has at most one active, one
// that its group has made so; who looks now and then and takes the changes over has the same table; and in the end the
// view is the same, and true.
func TestRoleChangesRestartsAndReorderedReportsGiveOneView(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		g := newGroup(rand.New(rand.NewPCG(seed, 7)))
		g.live()
		var want string
		for order, reports := range g.orders() {
			v, now := NewView(Limits{}), epoch
			v, _ = v.Apply(witness, now)
			newest := map[Partition]Generation{}
			tables := []*table{newTable(""), newTable("s")}
			for i, r := range reports {
				now = now.Add(time.Millisecond)
				if err := r.Validate(); err != nil {
					t.Fatal(err)
				}
				var err error
				if v, err = v.Apply(r, now); err != nil {
					t.Fatalf("seed %d, %s: %v", seed, order, err)
				}
				if err := g.checkActives(v, newest); err != nil {
					t.Fatalf("seed %d, %s, report %d: %v\n%s", seed, order, i, err, dump(v))
				}
				for _, tb := range tables {
					if g.rng.IntN(4) == 0 {
						tb.follow(v)
					}
					if g.rng.IntN(200) == 0 {
						tb.follow(v)
						tb.check(t, seed, v)
					}
				}
			}
			for _, tb := range tables {
				tb.follow(v)
				tb.check(t, seed, v)
			}
			if err := g.checkRest(v); err != nil {
				t.Fatalf("seed %d, %s: %v\n%s", seed, order, err, dump(v))
			}
			if want == "" {
				want = dump(v)
			} else if got := dump(v); got != want {
				t.Fatalf("seed %d, %s: got\n%s\nwant\n%s", seed, order, got, want)
			}
		}
	}
}
