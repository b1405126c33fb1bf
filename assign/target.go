package assign

import (
	"encoding/binary"
	"slices"
)

// What it costs to have a task's active at a member, besides a move from where it is. A move outweighs all tasks' costs
// of these kinds together.
const (
	costStay    = iota // it is there already, or was until its process restarted
	costDone           // was awaited there, and is ready
	costReady          // could go on there at once
	costAwaited        // is awaited there: the plan of the round before goes on
	costReplica        // a standby or warm-up is there and reading up
	costState          // some state is there
	costNothing        // all of the changelog has to be read
	costKinds          // how many there are
)

// target finds for each task the member where its active belongs when everything has caught up: the spread first, then
// the fewest moves, then the least to read up.
//
// The spread: of each sub-topology, of all stateful (and of all stateless) tasks, and of all tasks, each member has its
// share by capacity, rounded down or up. Such a rounding always exists (the shares themselves are a flow that keeps
// to these bounds, so a whole-numbered one does too), so the cheapest flow through this network finds the best:
//
//	source ─▶ tasks alike ─▶ sub-topology at member ─▶ stateful at member ─▶ member ─▶ sink
//
// At each of the last three steps the rounded-down share is free and one task more costs more than all else. As the sum
// of what flows is fixed, a flow has the fewest of these only if it fills every rounded-down share.
//
// Members that leave have no share and are no place for anything. When all drain, nothing moves that can stay.
func (p *plan) target() []int {
	if p.stuck {
		return p.stay()
	}
	f := p.network()
	f.mincost(f.source, f.sink)
	left := make([][]int, len(f.hubs)) // of what flows through the hubs
	for c, hub := range f.hubs {
		for _, place := range hub {
			left[c] = append(left[c], f.flow(place.edge))
		}
	}
	target := make([]int, len(p.tasks))
	for _, b := range f.bundles {
		// The bundle's tasks go in their order first to the places it names, then to what its column's hub has left.
		tasks := b.tasks
		give := func(n, member int) {
			for _, t := range tasks[:n] {
				target[t] = member
			}
			tasks = tasks[n:]
		}
		for _, place := range b.places {
			give(f.flow(place.edge), place.member)
		}
		for i, place := range f.hubs[b.column] {
			n := min(len(tasks), left[b.column][i])
			left[b.column][i] -= n
			give(n, place.member)
		}
	}
	return target
}

// stay is the target when all drain: each task where it is. One that nobody owns, or whose owner has to give way to a
// ready copy, goes to the least busy of those that may run it, if possible where it was.
func (p *plan) stay() []int {
	target := nobody(len(p.tasks))
	load := make([]int, len(p.members))
	for t := range p.tasks {
		if m := p.owner[t]; m >= 0 && p.mayRun(t, m) {
			target[t] = m
			load[m]++
		}
	}
	for t, best := range target {
		if best >= 0 {
			continue
		}
		for m := range p.members {
			if p.mayRun(t, m) && (best < 0 || best != p.was[t] && (m == p.was[t] || p.busier(load, best, m))) {
				best = m
			}
		}
		target[t] = best
		load[best]++
	}
	return target
}

// targetNetwork is the network that target describes.
type targetNetwork struct {
	*network
	source, sink int32
	bundles      []bundle
	hubs         [][]place // per column, by member: the way for all bundles to which it is just another member
}

// bundle is some tasks of one column that are alike: where they cost what, and else the same at all members.
type bundle struct {
	tasks  []int
	column int
	places []place
}

// place is the way of a bundle, or a hub, to a member.
type place struct {
	edge   int32
	member int
}

func (p *plan) network() *targetNetwork {
	n := int64(len(p.tasks))
	move := costKinds * (n + 1)
	uneven := (move + costKinds) * (n + 1)

	columns := p.columns()
	cells := (len(columns) + 3) * len(p.members)
	f := &targetNetwork{network: newNetwork(3*cells + 5*len(p.tasks))}
	f.source, f.sink = f.node(), f.node()
	step := func(from, to int32, tasks, m int) {
		share, rest := p.share(tasks, m)
		if share > 0 {
			f.edge(from, to, share, 0)
		}
		if rest {
			f.edge(from, to, 1, uneven)
		}
	}
	kinds := make([][2]int32, len(p.members)) // a member's stateless and stateful tasks
	for m := range p.members {
		all := f.node()
		kinds[m] = [2]int32{f.node(), f.node()}
		step(all, f.sink, len(p.tasks), m)
		step(kinds[m][0], all, len(p.tasks)-p.stateful, m)
		step(kinds[m][1], all, p.stateful, m)
	}
	for c, column := range columns {
		kind := 0
		if p.tasks[column[0]].Stateful {
			kind = 1
		}
		hub := f.node()
		cells := make([]int32, len(p.members))
		toMembers := make([]place, len(p.members))
		for m := range p.members {
			cells[m] = f.node()
			step(cells[m], kinds[m][kind], len(column), m)
			toMembers[m] = place{f.edge(hub, cells[m], len(column), 0), m}
		}
		for _, tasks := range p.alike(column) {
			costs, other := p.costs(tasks[0], move)
			from := f.node()
			f.edge(f.source, from, len(tasks), 0)
			b := bundle{tasks: tasks, column: c}
			for _, cost := range costs {
				b.places = append(b.places, place{f.edge(from, cells[cost.member], len(tasks), cost.cost), cost.member})
			}
			f.edge(from, hub, len(tasks), other)
			f.bundles = append(f.bundles, b)
		}
		f.hubs = append(f.hubs, toMembers)
	}
	return f
}

// share is member m's part of so many tasks, rounded down, and whether there is a rest. One that leaves has none.
func (p *plan) share(tasks, m int) (int, bool) {
	if p.leaves[m] {
		return 0, false
	}
	weighted := int64(tasks) * int64(p.members[m].Capacity)
	return int(weighted / p.capacity), weighted%p.capacity != 0
}

// columns are the tasks of each sub-topology (stateful and stateless ones apart, should one have both).
func (p *plan) columns() [][]int {
	type key struct {
		sub      int32
		stateful bool
	}
	at := make(map[key]int)
	var columns [][]int
	for t, task := range p.tasks {
		k := key{task.ID.Subtopology, task.Stateful}
		c, ok := at[k]
		if !ok {
			c = len(columns)
			at[k] = c
			columns = append(columns, nil)
		}
		columns[c] = append(columns[c], t)
	}
	return columns
}

// alike groups tasks of one column that cost the same everywhere, in the order of their first tasks.
func (p *plan) alike(column []int) [][]int {
	at := make(map[string]int)
	var groups [][]int
	var key []byte
	for _, t := range column {
		costs, other := p.costs(t, costKinds)
		key = binary.AppendVarint(key[:0], other)
		for _, c := range costs {
			key = binary.AppendVarint(key, int64(c.member))
			key = binary.AppendVarint(key, c.cost)
		}
		g, ok := at[string(key)]
		if !ok {
			g = len(groups)
			at[string(key)] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], t)
	}
	return groups
}

type memberCost struct {
	member int
	cost   int64
}

// costs says what task t costs at the members where it is not the same as elsewhere, by member, and what elsewhere.
// Only an owner that may go on counts as one: an active that reads up while another copy has caught up moves anyway, and
// so does one whose member leaves.
func (p *plan) costs(t int, move int64) ([]memberCost, int64) {
	owner := p.owner[t]
	if owner >= 0 && p.leaves[owner] {
		owner = -1
	}
	if !p.tasks[t].Stateful {
		switch {
		case owner >= 0:
			return []memberCost{{owner, costStay}}, move
		case p.was[t] >= 0:
			return []memberCost{{p.was[t], costStay}}, costReady
		default:
			return nil, costReady
		}
	}
	later := move // what it costs to go where it cannot go now: a handover from whoever has it meanwhile
	if owner < 0 || !p.mayRun(t, owner) {
		owner, move = -1, 0
		if !p.taker[t] {
			later = 0
		}
	}
	costs := p.scratch[:0]
	for _, c := range p.copies[t] {
		if p.leaves[c.member] {
			continue
		}
		cost := later
		if c.ready {
			cost = move
		}
		costs = append(costs, memberCost{c.member, cost + p.copyCost(t, c)})
	}
	if owner >= 0 {
		i, ok := slices.BinarySearchFunc(costs, owner, func(c memberCost, m int) int { return c.member - m })
		if !ok {
			costs = slices.Insert(costs, i, memberCost{member: owner})
		}
		costs[i].cost = costStay
	}
	p.scratch = costs
	return costs, later + costNothing
}

// copyCost is what it costs, besides the move, to make copy c of task t the active.
func (p *plan) copyCost(t int, c replica) int64 {
	switch {
	case c.ready && p.was[t] == c.member:
		return costStay
	case c.ready && c.awaited:
		return costDone
	case c.ready:
		return costReady
	case c.awaited:
		return costAwaited
	case c.given:
		return costReplica
	case c.state:
		return costState
	default:
		return costNothing
	}
}
