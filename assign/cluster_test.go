package assign

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/iqgate/iqgate/metadata"
)

// cluster is a group about to be planned.
type cluster struct {
	members  []Member
	tasks    []Task
	previous *Map
	options  Options
}

func (c cluster) String() string {
	s := fmt.Sprintf("options %+v\ntasks", c.options)
	for _, t := range c.tasks {
		s += fmt.Sprintf(" %v(%v)", t.ID, t.Stateful)
	}
	for _, m := range c.members {
		s += fmt.Sprintf("\n%s node=%s/%d rack=%q capacity=%d draining=%v owned=%v@%d lags=%v", m.ID, m.Node, m.Incarnation, m.Rack, m.Capacity, m.Draining, m.Owned, m.OwnedGeneration, m.Lags)
	}
	if c.previous != nil {
		for _, h := range c.previous.Hosts {
			s += fmt.Sprintf("\nprevious %s: active=%v standby=%v warmup=%v", h.Node, h.Active, h.Standby, h.Warmup)
		}
	}
	return s
}

// randomCluster makes a group in any state, possible or not: claims that contradict, lags without reason, a previous map
// of other nodes.
func randomCluster(r *rand.Rand) cluster {
	c := cluster{options: Options{Standbys: r.IntN(3), MaxWarmups: r.IntN(4), AcceptableLag: 100}}
	for sub := range 1 + r.IntN(3) {
		stateful := r.IntN(4) > 0
		for p := range 1 + r.IntN(6) {
			c.tasks = append(c.tasks, Task{metadata.TaskID{Subtopology: int32(sub), Partition: int32(p)}, stateful})
		}
	}
	racks, weighted, drains := r.IntN(4), r.IntN(4) == 0, max(0, r.IntN(6)-2)
	for i := range 1 + r.IntN(6) {
		m := Member{
			ID: fmt.Sprint("m", i), Node: metadata.NodeID(fmt.Sprint("n", i)), Address: fmt.Sprint("h", i, ":1"),
			Incarnation: metadata.Incarnation(r.IntN(3)), OwnedGeneration: metadata.Generation(8 + r.IntN(2)),
			Lags: make(map[metadata.TaskID]int64),
		}
		if r.IntN(12) == 0 && i > 0 {
			m.Node = metadata.NodeID(fmt.Sprint("n", i-1)) // two processes of one node
		}
		if racks > 0 {
			m.Rack = fmt.Sprint("r", r.IntN(racks))
		}
		if weighted {
			m.Capacity = r.IntN(5)
		}
		m.Draining = r.IntN(4) < drains
		c.members = append(c.members, m)
	}
	busy, state := r.IntN(5), r.IntN(5)
	for _, t := range c.tasks {
		for i := range c.members {
			m := &c.members[i]
			if r.IntN(4) < state && t.Stateful {
				m.Lags[t.ID] = []int64{0, 0, 50, 100, 101, 5000, 1 << 40, metadata.LagUnknown}[r.IntN(8)]
			}
		}
		if r.IntN(4) < busy {
			m := &c.members[r.IntN(len(c.members))]
			m.Owned = append(m.Owned, t.ID)
			if r.IntN(3) > 0 && t.Stateful {
				m.Lags[t.ID] = 0
			}
			if r.IntN(8) == 0 { // a second claim
				m := &c.members[r.IntN(len(c.members))]
				m.Owned = append(m.Owned, t.ID)
			}
		}
	}
	if r.IntN(2) == 0 {
		c.previous = randomMap(r, c.tasks)
	}
	return c
}

func randomMap(r *rand.Rand, tasks []Task) *Map {
	m := &Map{Hosts: make([]MapHost, 7)}
	for i := range m.Hosts {
		m.Hosts[i].Node = metadata.NodeID(fmt.Sprint("n", i))
	}
	for _, t := range tasks {
		p := r.Perm(len(m.Hosts))
		h := &m.Hosts[p[0]]
		h.Active = append(h.Active, t.ID)
		if t.Stateful {
			h = &m.Hosts[p[1]]
			h.Standby = append(h.Standby, t.ID)
			if r.IntN(2) == 0 {
				h.Awaited = append(h.Awaited, t.ID)
			}
			h = &m.Hosts[p[2]]
			h.Warmup, h.Awaited = append(h.Warmup, t.ID), append(h.Awaited, t.ID)
		}
	}
	return m
}

// settledGroup makes a group whose tasks are all owned by somebody who has caught up, however lopsided.
func settledGroup(r *rand.Rand) cluster {
	c := randomCluster(r)
	c.previous = nil
	for i := range c.members {
		m := &c.members[i]
		m.Node, m.OwnedGeneration = metadata.NodeID(fmt.Sprint("n", i)), 1
		m.Owned, m.Lags = nil, make(map[metadata.TaskID]int64)
	}
	owners := 1 + r.IntN(len(c.members))
	for _, t := range c.tasks {
		m := &c.members[r.IntN(owners)]
		m.Owned = append(m.Owned, t.ID)
		if t.Stateful {
			m.Lags[t.ID] = 0
		}
	}
	return c
}

// facts is what a test needs to know of a cluster, worked out the slow way.
type facts struct {
	newest  []Member                            // one a node
	leaves  map[string]bool                     // member ids: who drains, unless all do
	stuck   bool                                // all drain
	owner   map[metadata.TaskID]string          // member id, of the claim that counts
	claimed map[metadata.TaskID]bool            // by anybody who counts
	ready   map[metadata.TaskID]map[string]bool // member ids
	takers  map[metadata.TaskID]map[string]bool // those of ready that do not leave
}

func (c cluster) facts() facts {
	f := facts{
		owner: make(map[metadata.TaskID]string), claimed: make(map[metadata.TaskID]bool),
		ready: make(map[metadata.TaskID]map[string]bool), takers: make(map[metadata.TaskID]map[string]bool),
		leaves: make(map[string]bool),
	}
	newer := func(a, b Member) bool { // whether a goes before b as its node's process
		if a.Incarnation != b.Incarnation {
			return a.Incarnation > b.Incarnation
		}
		if a.OwnedGeneration != b.OwnedGeneration {
			return a.OwnedGeneration > b.OwnedGeneration
		}
		return a.ID < b.ID
	}
	for _, m := range c.members {
		if !slices.ContainsFunc(c.members, func(o Member) bool { return o.Node == m.Node && newer(o, m) }) {
			f.newest = append(f.newest, m)
		}
	}
	f.stuck = !slices.ContainsFunc(f.newest, func(m Member) bool { return !m.Draining })
	for _, m := range f.newest {
		if m.Draining && !f.stuck {
			f.leaves[m.ID] = true
		}
	}
	for _, t := range c.tasks {
		highest := metadata.Generation(-1)
		for _, m := range f.newest {
			if slices.Contains(m.Owned, t.ID) {
				f.claimed[t.ID] = true
				highest = max(highest, m.OwnedGeneration)
			}
		}
		f.ready[t.ID] = make(map[string]bool)
		if t.Stateful {
			f.ready[t.ID] = readyCopies(f.newest, t.ID, cmp.Or(c.options.AcceptableLag, DefaultAcceptableLag))
		}
		f.takers[t.ID] = make(map[string]bool)
		for id := range f.ready[t.ID] {
			if !f.leaves[id] {
				f.takers[t.ID][id] = true
			}
		}
		for _, m := range f.newest {
			if slices.Contains(m.Owned, t.ID) && m.OwnedGeneration == highest {
				if f.owner[t.ID] != "" {
					f.owner[t.ID] = ""
					break
				}
				f.owner[t.ID] = m.ID
			}
		}
	}
	return f
}

// readyCopies are the members that may have the task's active while they live.
func readyCopies(members []Member, t metadata.TaskID, acceptable int64) map[string]bool {
	within := func(limit int64) map[string]bool {
		ids := make(map[string]bool)
		for _, m := range members {
			if lag, ok := m.Lags[t]; ok && lag >= 0 && lag <= limit {
				ids[m.ID] = true
			}
		}
		return ids
	}
	if ids := within(acceptable); len(ids) > 0 {
		return ids
	}
	all := make(map[string]bool)
	best := int64(-1)
	for _, m := range members {
		if lag, ok := m.Lags[t]; ok {
			all[m.ID] = true
			if lag >= 0 && (best < 0 || lag < best) {
				best = lag
			}
		}
	}
	if best < 0 {
		return all
	}
	return within(best + acceptable)
}

// broken names the first promise that a plan does not keep, or nothing.
func (c cluster) broken(a Assignment) string {
	f := c.facts()
	isNewest := make(map[string]bool)
	for _, m := range f.newest {
		isNewest[m.ID] = true
	}
	if len(a.Members) != len(c.members) || len(a.Map.Hosts) != len(f.newest) {
		return "not every member has an entry, or not every node a host"
	}
	if !reflect.DeepEqual(a.Withheld, a.Map.Withheld) || !slices.IsSortedFunc(a.Withheld, metadata.TaskID.Compare) {
		return "the map withholds other tasks, or out of order"
	}
	type roles struct{ active, standby, warmup []string }
	by := make(map[metadata.TaskID]*roles)
	for _, t := range c.tasks {
		by[t.ID] = &roles{}
	}
	warmups := 0
	for _, m := range c.members {
		g, ok := a.Members[m.ID]
		switch {
		case !ok:
			return m.ID + " has no entry"
		case !isNewest[m.ID] && !reflect.DeepEqual(g, Given{}):
			return m.ID + " is superseded and got something"
		}
		if h, ok := a.Map.Given(m.Node, m.Incarnation); isNewest[m.ID] && (!ok || !reflect.DeepEqual(g, h)) {
			return m.ID + " is told something else by the map"
		}
		for _, list := range [][]metadata.TaskID{g.Active, g.Standby, g.Warmup, g.Awaited} {
			if !slices.IsSortedFunc(list, metadata.TaskID.Compare) {
				return m.ID + " has an unsorted list"
			}
		}
		for _, t := range g.Awaited {
			if !slices.Contains(g.Standby, t) && !slices.Contains(g.Warmup, t) {
				return fmt.Sprintf("%s awaits %v without having it", m.ID, t)
			}
		}
		for _, t := range g.Active {
			by[t].active = append(by[t].active, m.ID)
		}
		for _, t := range g.Standby {
			by[t].standby = append(by[t].standby, m.ID)
		}
		for _, t := range g.Warmup {
			by[t].warmup = append(by[t].warmup, m.ID)
			if !slices.Contains(g.Awaited, t) {
				return fmt.Sprintf("%s warms up %v for nothing", m.ID, t)
			}
		}
		warmups += len(g.Warmup)
	}
	if warmups > cmp.Or(c.options.MaxWarmups, DefaultMaxWarmups) {
		return fmt.Sprintf("%d warm-ups", warmups)
	}
	for _, t := range c.tasks {
		r := by[t.ID]
		replicas := slices.Concat(r.active, r.standby, r.warmup)
		slices.Sort(replicas)
		withheld := slices.Contains(a.Withheld, t.ID)
		switch {
		case withheld != (len(r.active) == 0) || len(r.active) > 1:
			return fmt.Sprintf("%v has actives %v, withheld %v", t.ID, r.active, withheld)
		case withheld && !f.claimed[t.ID]:
			return fmt.Sprintf("%v is withheld and nobody has to give it up", t.ID)
		case !withheld && f.claimed[t.ID] && f.owner[t.ID] != r.active[0]:
			return fmt.Sprintf("%v goes to %v under the feet of %q", t.ID, r.active, f.owner[t.ID])
		case len(slices.Compact(replicas)) != len(r.active)+len(r.standby)+len(r.warmup):
			return fmt.Sprintf("%v has two replicas on a node: %v", t.ID, replicas)
		case !t.Stateful && len(r.standby)+len(r.warmup) > 0:
			return fmt.Sprintf("%v is stateless and has standbys %v, warm-ups %v", t.ID, r.standby, r.warmup)
		}
		for _, s := range []string{
			c.activeBroken(f, t, r.active, r.standby), c.standbysBroken(f, t, r.active, r.standby), f.leaversBroken(c.previous, t, r.active, r.standby, r.warmup),
		} {
			if s != "" {
				return s
			}
		}
		for _, s := range r.standby {
			for m := range f.takers[t.ID] {
				if !f.stuck && !f.leaves[s] && !f.ready[t.ID][s] && !slices.Contains(replicas, m) {
					return fmt.Sprintf("%v gives up the copy of %s, which is ready, for that of %s", t.ID, m, s)
				}
			}
		}
	}
	return ""
}

// activeBroken says why a task, withheld if it has no active, may not be run like that, or nothing.
func (c cluster) activeBroken(f facts, t Task, active, standby []string) string {
	ready, takers, owner := f.ready[t.ID], f.takers[t.ID], f.owner[t.ID]
	switch {
	case !t.Stateful, len(ready) == 0:
		if len(active) > 0 && f.leaves[active[0]] {
			return fmt.Sprintf("%v is of no use to %v, which leaves", t.ID, active)
		}
	case len(active) == 0 && len(takers) > 0:
		if !slices.ContainsFunc(standby, func(id string) bool { return takers[id] }) {
			return fmt.Sprintf("%v is withheld for nobody who could have it", t.ID)
		}
	case len(active) == 0 && owner != "":
		return fmt.Sprintf("%v is withheld from %s though nobody could have it", t.ID, owner)
	case len(active) == 0: // several have to give it up first
	case len(takers) > 0 && !takers[active[0]]:
		return fmt.Sprintf("%v goes to %v, which is not ready or leaves", t.ID, active)
	case len(takers) == 0 && active[0] != owner && !ready[active[0]]:
		return fmt.Sprintf("%v goes to %v, which is not ready", t.ID, active)
	}
	return ""
}

// standbysBroken says how the standbys of members that stay are not as many as there should be, or nothing.
func (c cluster) standbysBroken(f facts, t Task, active, standby []string) string {
	if !t.Stateful || f.stuck {
		return ""
	}
	have := 0
	for _, id := range standby {
		if !f.leaves[id] {
			have++
		}
	}
	staying := len(f.newest) - len(f.leaves)
	withNext := 1 + min(c.options.Standbys, staying-1) // while withheld, the next active's is one more
	alone := min(c.options.Standbys, staying)          // the active is at a member that leaves
	switch {
	case len(active) == 0 && (have == withNext || len(f.takers[t.ID]) == 0 && have == alone):
	case len(active) > 0 && f.leaves[active[0]] && have == alone:
	case len(active) > 0 && !f.leaves[active[0]] && have == withNext-1:
	default:
		return fmt.Sprintf("%v has %d standbys at members that stay", t.ID, have)
	}
	return ""
}

// leaversBroken says what a member that leaves gets though it did not have it, or nothing. It may have what only its
// copy can run.
func (f facts) leaversBroken(previous *Map, t Task, active, standby, warmup []string) string {
	for _, m := range f.newest {
		last := len(f.takers[t.ID]) == 0 && f.ready[t.ID][m.ID]
		had := slices.Contains(m.Owned, t.ID)
		if previous != nil {
			for _, h := range previous.Hosts {
				had = had || h.Node == m.Node && (slices.Contains(h.Active, t.ID) || slices.Contains(h.Standby, t.ID))
			}
		}
		_, state := m.Lags[t.ID]
		switch {
		case f.stuck && len(active) > 0 && slices.Contains(standby, m.ID) && !had:
			return fmt.Sprintf("%v is new to %s, and all drain", t.ID, m.ID)
		case !f.leaves[m.ID]:
		case slices.Contains(warmup, m.ID):
			return fmt.Sprintf("%v warms up at %s, which leaves", t.ID, m.ID)
		case slices.Contains(active, m.ID) && (f.owner[t.ID] != m.ID || len(f.takers[t.ID]) > 0) && (!last || f.owner[t.ID] != ""):
			return fmt.Sprintf("%v is run by %s, which leaves", t.ID, m.ID)
		case slices.Contains(standby, m.ID) && (!had || !state) && !last:
			return fmt.Sprintf("%v gets a standby at %s, which leaves", t.ID, m.ID)
		case t.Stateful && had && state && f.owner[t.ID] == m.ID && !slices.Contains(standby, m.ID) && !slices.Contains(active, m.ID):
			return fmt.Sprintf("%s has to forget %v before it leaves", m.ID, t.ID)
		}
	}
	if f.stuck && len(warmup) > 0 {
		return fmt.Sprintf("%v warms up, and all drain", t.ID)
	}
	return ""
}

// uneven says how a settled assignment falls short of the spread, or nothing.
func (c cluster) uneven(a Assignment) string {
	capacity := 0
	weight := make(map[string]int)
	f := c.facts()
	if f.stuck {
		return "" // as it was
	}
	racks := make(map[string]bool)
	rack := make(map[string]string)
	for _, m := range f.newest {
		if f.leaves[m.ID] {
			if g := a.Members[m.ID]; len(g.Active) > 0 {
				return fmt.Sprintf("%s leaves and still runs %v", m.ID, g.Active)
			}
			continue
		}
		weight[m.ID] = max(1, m.Capacity)
		capacity += weight[m.ID]
		racks[m.Rack] = true
		rack[m.ID] = m.Rack
	}
	count := func(what string, in func(Task) bool) string {
		total := 0
		have := make(map[string]int)
		for _, t := range c.tasks {
			if in(t) {
				total++
				for id, g := range a.Members {
					if slices.Contains(g.Active, t.ID) {
						have[id]++
					}
				}
			}
		}
		for id, w := range weight {
			if low, high := total*w/capacity, (total*w+capacity-1)/capacity; have[id] < low || have[id] > high {
				return fmt.Sprintf("%s has %d %s tasks, not %d to %d", id, have[id], what, low, high)
			}
		}
		return ""
	}
	if s := count("of all", func(Task) bool { return true }); s != "" {
		return s
	}
	if s := count("stateful", func(t Task) bool { return t.Stateful }); s != "" {
		return s
	}
	for sub := range int32(3) {
		if s := count(fmt.Sprint("of sub-topology ", sub), func(t Task) bool { return t.ID.Subtopology == sub }); s != "" {
			return s
		}
	}
	for _, t := range c.tasks {
		in := make(map[string]bool)
		for id, g := range a.Members {
			if !f.leaves[id] && (slices.Contains(g.Active, t.ID) || slices.Contains(g.Standby, t.ID)) {
				in[rack[id]] = true
			}
		}
		if want := min(len(racks), 1+c.options.Standbys); t.Stateful && len(in) < want {
			return fmt.Sprintf("%v is in %d racks, not %d", t.ID, len(in), want)
		}
	}
	return ""
}
