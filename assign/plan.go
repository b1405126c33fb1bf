package assign

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/iqgate/iqgate/metadata"
)

// Plan says who runs and who follows which task. previous is the map of the generation before, nil when none is known;
// it only helps to leave things where they are. The same input, in any order, gives the same output. The promises are
// in the package's comment.
func Plan(members []Member, tasks []Task, previous *Map, o Options) (Assignment, error) {
	p, err := newPlan(members, tasks, o)
	if err != nil {
		return Assignment{}, err
	}
	p.claims()
	p.lookBack(previous)
	p.weighCopies()
	p.placeActives(p.target())
	p.placeStandbys()
	p.placeWarmups()
	return p.assignment(members), nil
}

// plan is the work in progress. Members and tasks are known by their place in the sorted lists; -1 is none.
type plan struct {
	options  Options
	members  []Member // one a node, sorted by node, capacities at least 1
	leaves   []bool   // who hands everything over: who drains while somebody stays
	staying  int      // how many stay
	stuck    bool     // all drain, so nobody leaves and nothing moves
	capacity int64    // of all who stay
	tasks    []Task   // sorted
	index    map[metadata.TaskID]int
	stateful int // how many tasks are

	// What was, by task.
	owner    []int  // who holds the active and need not give it up for another's claim
	tied     []bool // several hold it under one generation: all have to give it up
	was      []int  // whose active it was in the previous map
	copies   [][]replica
	anyReady []bool // whether any of copies is
	taker    []bool // whether any copy of a member that stays is
	scratch  []memberCost

	// What will be, by task.
	next     []int // the active, or once its owner has given it up
	withheld []bool
	wanted   []int // where the active should go once caught up there, if elsewhere
	standbys [][]int
	warmups  [][]int
	awaited  [][]int
	warming  []warmup // wishes for warm-ups
}

// replica is what a member has of a task.
type replica struct {
	member  int
	state   bool  // the member reports some state
	lag     int64 // if so; metadata.LagUnknown if it does not know
	given   bool  // standby or warm-up in the previous map
	stood   bool  // standby in the previous map
	warmed  bool  // warm-up in the previous map
	awaited bool  // awaited in the previous map
	ready   bool  // as good as any there is, see weighCopies
}

func newPlan(members []Member, tasks []Task, o Options) (*plan, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &plan{options: o}
	if p.members, err = current(members); err != nil {
		return nil, err
	}
	p.weighMembers()
	p.tasks = slices.SortedFunc(slices.Values(tasks), func(a, b Task) int { return a.ID.Compare(b.ID) })
	p.index = make(map[metadata.TaskID]int, len(tasks))
	for i, t := range p.tasks {
		switch {
		case t.ID.Subtopology < 0 || t.ID.Partition < 0:
			return nil, fmt.Errorf("task %v: its numbers must not be negative", t.ID)
		case i > 0 && p.tasks[i-1].ID == t.ID:
			return nil, fmt.Errorf("task %v is there twice", t.ID)
		case t.Stateful:
			p.stateful++
		}
		p.index[t.ID] = i
	}
	n := len(p.tasks)
	p.owner, p.was = nobody(n), nobody(n)
	p.next, p.wanted = nobody(n), nobody(n)
	p.tied, p.withheld = make([]bool, n), make([]bool, n)
	p.anyReady, p.taker = make([]bool, n), make([]bool, n)
	p.copies = make([][]replica, n)
	p.standbys, p.warmups, p.awaited = make([][]int, n), make([][]int, n), make([][]int, n)
	return p, nil
}

// weighMembers finds out who leaves, and what those who stay can carry.
func (p *plan) weighMembers() {
	for _, m := range p.members {
		if !m.Draining {
			p.staying++
		}
	}
	if p.stuck = p.staying == 0; p.stuck {
		p.staying = len(p.members)
	}
	for i := range p.members {
		m := &p.members[i]
		m.Capacity = max(1, m.Capacity)
		leaves := m.Draining && !p.stuck
		p.leaves = append(p.leaves, leaves)
		if !leaves {
			p.capacity += int64(m.Capacity)
		}
	}
}

// nobody is so many times -1.
func nobody(n int) []int { return slices.Repeat([]int{-1}, n) }

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Standbys < 0:
		return o, fmt.Errorf("option Standbys %d must not be negative", o.Standbys)
	case o.AcceptableLag < 0:
		return o, fmt.Errorf("option AcceptableLag %d must not be negative", o.AcceptableLag)
	case o.MaxWarmups < 0:
		return o, fmt.Errorf("option MaxWarmups %d must not be negative", o.MaxWarmups)
	}
	o.AcceptableLag = cmp.Or(o.AcceptableLag, DefaultAcceptableLag)
	o.MaxWarmups = cmp.Or(o.MaxWarmups, DefaultMaxWarmups)
	return o, nil
}

// current checks the members and keeps, of those of one node, the process that started last. Its predecessor is dead or
// as good as dead: the newer one fenced its transactional ids when it started, so what it holds needs no handing over.
// Two of one incarnation are one process that joined again before its old membership ended; the newer claims win.
func current(members []Member) ([]Member, error) {
	ids := make(map[string]bool, len(members))
	for _, m := range members {
		switch {
		case m.ID == "":
			return nil, fmt.Errorf("member of node %q has no id", m.Node)
		case ids[m.ID]:
			return nil, fmt.Errorf("member id %q is there twice", m.ID)
		case m.Node == "":
			return nil, fmt.Errorf("member %q has no node id", m.ID)
		case m.Capacity < 0 || m.Capacity > MaxCapacity:
			return nil, fmt.Errorf("member %q of node %q: capacity %d is not within 0 and %d", m.ID, m.Node, m.Capacity, MaxCapacity)
		}
		ids[m.ID] = true
	}
	if len(members) == 0 {
		return nil, errors.New("no members to plan for")
	}
	sorted := slices.SortedFunc(slices.Values(members), func(a, b Member) int {
		return cmp.Or(
			cmp.Compare(a.Node, b.Node),
			-cmp.Compare(a.Incarnation, b.Incarnation),
			-cmp.Compare(a.OwnedGeneration, b.OwnedGeneration),
			cmp.Compare(a.ID, b.ID))
	})
	return slices.CompactFunc(sorted, func(a, b Member) bool { return a.Node == b.Node }), nil
}

// claims settles who owns which task (KIP-792): the claim under the highest generation; if that is several members',
// nobody owns it and all have to give it up. It also collects the copies that members tell of.
func (p *plan) claims() {
	for m, member := range p.members {
		for _, id := range member.Owned {
			t, ok := p.index[id]
			if !ok || p.owner[t] == m {
				continue // gone from the topology, or told twice
			}
			rival := p.owner[t]
			switch {
			case rival < 0 || member.OwnedGeneration > p.members[rival].OwnedGeneration:
				p.owner[t], p.tied[t] = m, false
			case member.OwnedGeneration == p.members[rival].OwnedGeneration:
				p.tied[t] = true
			}
		}
		for id, lag := range member.Lags {
			if t, ok := p.index[id]; ok && p.tasks[t].Stateful {
				p.copies[t] = append(p.copies[t], replica{member: m, state: true, lag: lag})
			}
		}
	}
	for t, tied := range p.tied {
		if tied {
			p.owner[t] = -1
		}
	}
}

// lookBack notes the roles of the previous map at nodes that are still there.
func (p *plan) lookBack(previous *Map) {
	if previous == nil {
		return
	}
	for _, h := range previous.Hosts {
		m, ok := slices.BinarySearchFunc(p.members, h.Node, func(m Member, n metadata.NodeID) int { return cmp.Compare(m.Node, n) })
		if !ok {
			continue
		}
		for _, id := range h.Active {
			if t, ok := p.index[id]; ok {
				p.was[t] = m
			}
		}
		for _, id := range h.Standby {
			if r := p.copyAt(id, m); r != nil {
				r.given, r.stood = true, true
			}
		}
		for _, id := range h.Warmup {
			if r := p.copyAt(id, m); r != nil {
				r.given, r.warmed = true, true
			}
		}
		for _, id := range h.Awaited {
			if r := p.copyAt(id, m); r != nil {
				r.awaited = true
			}
		}
	}
}

// copyAt is member m's copy of a task, made when there is none; nil for tasks that cannot have one.
func (p *plan) copyAt(id metadata.TaskID, m int) *replica {
	t, ok := p.index[id]
	if !ok || !p.tasks[t].Stateful {
		return nil
	}
	i, ok := p.find(t, m)
	if !ok {
		p.copies[t] = slices.Insert(p.copies[t], i, replica{member: m})
	}
	return &p.copies[t][i]
}

// find says where member m's copy of task t is among the task's, which are few, or would be.
func (p *plan) find(t, m int) (int, bool) {
	copies, i := p.copies[t], 0
	for i < len(copies) && copies[i].member < m {
		i++
	}
	return i, i < len(copies) && copies[i].member == m
}

// weighCopies finds out which copies of each task are ready to be its active: those that have caught up. While none has,
// those that are not much farther behind than the best; while no lag is known, all that have some state.
func (p *plan) weighCopies() {
	for t, copies := range p.copies {
		best := int64(-1)
		for _, c := range copies {
			if c.state && c.lag >= 0 && (best < 0 || c.lag < best) {
				best = c.lag
			}
		}
		limit := p.options.AcceptableLag
		if best > limit {
			limit = best + min(limit, math.MaxInt64-best)
		}
		for i := range copies {
			c := &copies[i]
			c.ready = c.state && (best < 0 || c.lag >= 0 && c.lag <= limit)
			p.anyReady[t] = p.anyReady[t] || c.ready
			p.taker[t] = p.taker[t] || c.ready && !p.leaves[c.member]
		}
	}
}

// mayRun says whether member m may have the active of task t now. While a ready copy is at a member that stays, one of
// those has to have it. Otherwise whoever owns it goes on; with no ready copy at all anybody may begin.
func (p *plan) mayRun(t, m int) bool {
	if p.taker[t] {
		return !p.leaves[m] && p.isReady(t, m)
	}
	return p.owner[t] == m || !p.anyReady[t]
}

func (p *plan) isReady(t, m int) bool {
	i, ok := p.find(t, m)
	return ok && p.copies[t][i].ready
}

// placeActives gives each task to its target or, while that is not ready and another is, to one that is: the owner if it
// may go on, else one that stays, and only for want of any such copy one that leaves.
func (p *plan) placeActives(target []int) {
	load := make([]int, len(p.members))
	var waiting []int
	for t, m := range target {
		owner := p.owner[t]
		switch {
		case p.mayRun(t, m):
			p.next[t] = m
		case owner >= 0 && p.mayRun(t, owner):
			p.next[t], p.wanted[t] = owner, m
		default:
			p.wanted[t] = m
			waiting = append(waiting, t)
			continue
		}
		load[p.next[t]]++
	}
	for _, t := range waiting {
		best := -1
		for _, c := range p.copies[t] {
			if c.ready && p.leaves[c.member] != p.taker[t] && (best < 0 || p.busier(load, best, c.member)) {
				best = c.member
			}
		}
		p.next[t] = best
		load[best]++
	}
	for t, m := range p.next {
		p.withheld[t] = p.tied[t] || p.owner[t] >= 0 && p.owner[t] != m
	}
}

// busier says whether member a has more of load than b, each for its capacity.
func (p *plan) busier(load []int, a, b int) bool {
	return int64(load[a])*int64(p.members[b].Capacity) > int64(load[b])*int64(p.members[a].Capacity)
}

// assignment writes the plan down, member by member.
func (p *plan) assignment(members []Member) Assignment {
	given := make([]Given, len(p.members))
	a := Assignment{
		Members: make(map[string]Given, len(members)),
		Map:     Map{AcceptableLag: p.options.AcceptableLag},
	}
	for t, task := range p.tasks {
		if p.withheld[t] {
			a.Withheld = append(a.Withheld, task.ID)
		} else {
			g := &given[p.next[t]]
			g.Active = append(g.Active, task.ID)
		}
		for _, m := range p.standbys[t] {
			given[m].Standby = append(given[m].Standby, task.ID)
		}
		for _, m := range p.warmups[t] {
			given[m].Warmup = append(given[m].Warmup, task.ID)
		}
		for _, m := range p.awaited[t] {
			given[m].Awaited = append(given[m].Awaited, task.ID)
		}
	}
	for _, m := range members {
		a.Members[m.ID] = Given{} // superseded ones too
	}
	for i, m := range p.members {
		g := given[i]
		a.Members[m.ID] = g
		a.Map.Hosts = append(a.Map.Hosts, MapHost{
			Node: m.Node, Address: m.Address, Rack: m.Rack, Incarnation: m.Incarnation,
			Active: g.Active, Standby: g.Standby, Warmup: g.Warmup, Awaited: g.Awaited, Draining: m.Draining, Lease: m.Lease,
		})
	}
	a.Map.Withheld = a.Withheld
	return a
}
