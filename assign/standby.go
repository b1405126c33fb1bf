package assign

import (
	"cmp"
	"slices"
)

// placeStandbys chooses each stateful task's standbys, beginning with what is there:
//
//  1. what follows the task now, or is ready, stays;
//  2. what is missing goes to the best place;
//  3. a standby goes to another rack if that has fewer of the task's replicas;
//  4. a standby of a member that has more than its share goes to one that has less, if the racks stay as good;
//  5. but a new place that still has to read up replaces no copy that is ready: that one stays, and the new place becomes
//     a wish for a warm-up.
//
// A member that leaves is no place for any of these. What it follows it goes on following, beside the others.
//
// Every step of 3 lessens the pairs of replicas in one rack and every step of 4 the standbys beyond the shares, so both
// end, and where neither finds anything to do a plan changes nothing.
func (p *plan) placeStandbys() {
	s := &standbyPlacer{plan: p, load: make([]int, len(p.members)), busy: make([]int, len(p.members))}
	total := 0
	for t, m := range p.next {
		s.busy[m]++
		if p.tasks[t].Stateful {
			total += s.want(t)
		}
	}
	for m := range p.members {
		share, rest := p.share(total, m)
		if rest {
			share++
		}
		s.share = append(s.share, share)
	}
	s.numberRacks()
	s.each(s.keep)
	s.each(s.fill)
	s.each(s.spread)
	s.each(func(t int) { s.relieve(t, classWarmup) }) // what has begun goes on
	s.each(func(t int) { s.relieve(t, classNothing) })
	s.each(s.protect)
	s.each(s.keepNext)
	s.each(s.keepLeaving)
}

type standbyPlacer struct {
	*plan
	share []int // how many standbys a member should have at most
	load  []int // how many it has
	busy  []int // how many it has, and actives
	rack  []int // its rack's number
	used  []int // per rack: replicas of the task at hand
}

func (s *standbyPlacer) numberRacks() {
	number := make(map[string]int)
	for _, m := range s.members {
		n, ok := number[m.Rack]
		if !ok {
			n = len(number)
			number[m.Rack] = n
		}
		s.rack = append(s.rack, n)
	}
	s.used = make([]int, len(number))
}

// each calls f for every stateful task, with used telling of that task.
func (s *standbyPlacer) each(f func(t int)) {
	for t, task := range s.tasks {
		if !task.Stateful {
			continue
		}
		clear(s.used)
		s.used[s.rack[s.next[t]]]++
		for _, m := range s.standbys[t] {
			s.used[s.rack[m]]++
		}
		f(t)
	}
}

// want is how many standbys task t should have, at members that stay.
func (s *standbyPlacer) want(t int) int {
	places := s.staying
	switch {
	case s.stuck:
		return 0 // nobody gets anything; see keepLeaving
	case !s.leaves[s.next[t]]:
		places--
	}
	return min(s.options.Standbys, places)
}

// free says that member m is a place for a replica of task t: it stays and has none yet.
func (s *standbyPlacer) free(t, m int) bool {
	return m != s.next[t] && !s.leaves[m] && !slices.Contains(s.standbys[t], m)
}

func (s *standbyPlacer) add(t, m int) {
	s.standbys[t] = append(s.standbys[t], m)
	s.load[m]++
	s.busy[m]++
	s.used[s.rack[m]]++
}

// move gives the i-th standby of task t to member m.
func (s *standbyPlacer) move(t, i, m int) {
	from := s.standbys[t][i]
	s.load[from]--
	s.busy[from]--
	s.used[s.rack[from]]--
	s.standbys[t][i] = m
	s.load[m]++
	s.busy[m]++
	s.used[s.rack[m]]++
}

// keep lets copies stay where they are.
func (s *standbyPlacer) keep(t int) {
	for want := s.want(t); len(s.standbys[t]) < want; {
		best := -1
		for _, c := range s.copies[t] {
			if s.class(t, c.member) > classWarmup || !s.free(t, c.member) {
				continue
			}
			if best < 0 || s.class(t, c.member) < s.class(t, best) ||
				s.class(t, c.member) == s.class(t, best) && s.better(t, c.member, best) {
				best = c.member
			}
		}
		if best < 0 {
			return
		}
		s.add(t, best)
	}
}

// fill finds places for the missing standbys.
func (s *standbyPlacer) fill(t int) {
	for want := s.want(t); len(s.standbys[t]) < want; {
		best := -1
		for m := range s.members {
			if s.free(t, m) && (best < 0 || s.better(t, m, best)) {
				best = m
			}
		}
		s.add(t, best)
	}
}

// better says whether a is the better place than b for one more standby of task t: the rack, then room in its share,
// then what is there already, then who has less to do.
func (s *standbyPlacer) better(t, a, b int) bool {
	c := cmp.Or(
		cmp.Compare(s.used[s.rack[a]], s.used[s.rack[b]]),
		cmp.Compare(s.excess(a), s.excess(b)),
		cmp.Compare(s.class(t, a), s.class(t, b)))
	if c != 0 {
		return c < 0
	}
	return s.busier(s.busy, b, a)
}

// excess is 1 for a member that one more standby would bring above its share, else 0.
func (s *standbyPlacer) excess(m int) int {
	if s.load[m] >= s.share[m] {
		return 1
	}
	return 0
}

// spread moves standbys of task t to racks that have fewer of its replicas.
func (s *standbyPlacer) spread(t int) {
	for i := 0; i < len(s.standbys[t]); i++ {
		from := s.rack[s.standbys[t][i]]
		if s.used[from] < 2 {
			continue // alone in its rack
		}
		best := -1
		for m := range s.members {
			if s.used[s.rack[m]] < s.used[from]-1 && s.free(t, m) && (best < 0 || s.better(t, m, best)) {
				best = m
			}
		}
		if best >= 0 {
			s.move(t, i, best)
			i = -1 // the others may do better now too
		}
	}
}

// relieve moves standbys of task t from members with more than their share to ones with less, of that class or better.
func (s *standbyPlacer) relieve(t, class int) {
	for i := 0; i < len(s.standbys[t]); i++ {
		m := s.standbys[t][i]
		if s.load[m] <= s.share[m] || m == s.wanted[t] {
			continue // what will be the active there reads on
		}
		from, best := s.rack[m], -1
		for n := range s.members {
			if s.load[n] >= s.share[n] || !s.free(t, n) || n == s.wanted[t] || s.class(t, n) > class {
				continue // and what will be the active there is no place for a standby
			}
			if s.rack[n] != from && s.used[s.rack[n]] > s.used[from]-1 {
				continue
			}
			if best < 0 || s.better(t, n, best) {
				best = n
			}
		}
		if best >= 0 {
			s.move(t, i, best)
			i = -1
		}
	}
}

// How good a place is for a standby of a task by what it has of it.
const (
	classStandby = iota // is its standby and ready
	classReady          // is ready
	classFollows        // is its standby
	classWarmup         // is its warm-up
	classWanted         // will have the active, so has to read up anyway
	classState          // has some state
	classNothing
)

func (p *plan) class(t, m int) int {
	class := classNothing
	if i, ok := p.find(t, m); ok {
		switch c := p.copies[t][i]; {
		case c.ready && c.stood:
			return classStandby
		case c.ready:
			return classReady
		case c.stood:
			return classFollows
		case c.warmed:
			return classWarmup
		case c.state:
			class = classState
		}
	}
	if p.wanted[t] == m {
		class = min(class, classWanted)
	}
	return class
}

// protect puts ready copies in the place of standbys that are not.
func (s *standbyPlacer) protect(t int) {
	for i, m := range s.standbys[t] {
		if s.class(t, m) <= classReady {
			continue
		}
		best := -1
		for _, c := range s.copies[t] {
			if c.ready && s.free(t, c.member) && (best < 0 || s.class(t, c.member) < s.class(t, best)) {
				best = c.member
			}
		}
		if best < 0 {
			return // nor is there one for the others
		}
		s.standbys[t][i] = best
		s.warming = append(s.warming, warmup{task: t, member: m})
	}
}

// keepNext lets the member that gets the active in the next round follow the changelog in this one.
func (s *standbyPlacer) keepNext(t int) {
	if s.withheld[t] {
		s.standbys[t] = append(s.standbys[t], s.next[t])
	}
}

// keepLeaving lets members that leave, or would if not all did, follow what they had: they serve it until they go.
func (s *standbyPlacer) keepLeaving(t int) {
	for _, c := range s.copies[t] {
		m := c.member
		had := c.stood || s.owner[t] == m || s.was[t] == m
		if (s.leaves[m] || s.stuck) && m != s.next[t] && had && c.state {
			s.standbys[t] = append(s.standbys[t], m)
		}
	}
}
