package assign

import (
	"cmp"
	"slices"
)

// placeStandbys chooses each stateful task's standbys in two passes. First every standby (or other copy that has caught
// up) stays where it is, as long as no rack is better and its member has no more than its share; then what is missing
// goes to the best place left. A place that still has to read up replaces no copy that has caught up before it has: until
// then the copy stays and the place is a wish for a warm-up.
func (p *plan) placeStandbys() {
	want := min(p.options.Standbys, len(p.members)-1)
	s := &standbyPlacer{plan: p, load: make([]int, len(p.members)), used: make([]int, len(p.members))}
	for m := range p.members {
		share, rest := p.share(p.stateful*want, m)
		if rest {
			share++
		}
		s.share = append(s.share, share)
	}
	s.racks()
	for range want {
		for t, task := range p.tasks {
			if task.Stateful {
				s.keep(t)
			}
		}
	}
	for range want {
		for t, task := range p.tasks {
			if task.Stateful && len(p.standbys[t]) < want {
				s.fill(t)
			}
		}
	}
	for t, task := range p.tasks {
		if task.Stateful {
			s.protect(t)
			s.keepNext(t)
		}
	}
}

type standbyPlacer struct {
	*plan
	share []int // standbys a member should have at most
	load  []int // standbys it has
	rack  []int // its rack's number
	used  []int // per rack: replicas of the task at hand; zero between tasks
}

func (s *standbyPlacer) racks() {
	number := make(map[string]int)
	for _, m := range s.members {
		n, ok := number[m.Rack]
		if !ok {
			n = len(number)
			number[m.Rack] = n
		}
		s.rack = append(s.rack, n)
	}
}

// occupy counts the racks of task t's replicas, with sign 1, or takes the count back, with sign -1.
func (s *standbyPlacer) occupy(t, sign int) {
	s.used[s.rack[s.next[t]]] += sign
	for _, m := range s.standbys[t] {
		s.used[s.rack[m]] += sign
	}
}

// free says that member m has no replica of task t yet.
func (s *standbyPlacer) free(t, m int) bool {
	return m != s.next[t] && !slices.Contains(s.standbys[t], m)
}

// emptiest is the smallest number of replicas of the task at hand in any rack that has a free member.
func (s *standbyPlacer) emptiest(t int) int {
	least := -1
	for m := range s.members {
		if u := s.used[s.rack[m]]; (least < 0 || u < least) && s.free(t, m) {
			least = u
		}
	}
	return least
}

func (s *standbyPlacer) add(t, m int) {
	s.standbys[t] = append(s.standbys[t], m)
	s.load[m]++
}

// keep lets one more copy of task t stay where it is.
func (s *standbyPlacer) keep(t int) {
	s.occupy(t, 1)
	least, best := s.emptiest(t), -1
	bestClass := 0
	for _, c := range s.copies[t] {
		class := s.class(t, c.member)
		if class > classGiven || s.used[s.rack[c.member]] > least || s.load[c.member] >= s.share[c.member] || !s.free(t, c.member) {
			continue
		}
		if best < 0 || class < bestClass {
			best, bestClass = c.member, class
		}
	}
	s.occupy(t, -1)
	if best >= 0 {
		s.add(t, best)
	}
}

// fill finds a place for one more standby of task t.
func (s *standbyPlacer) fill(t int) {
	s.occupy(t, 1)
	best := -1
	for m := range s.members {
		if s.free(t, m) && (best < 0 || s.better(t, m, best)) {
			best = m
		}
	}
	s.occupy(t, -1)
	s.add(t, best)
}

// better says whether a is the better place than b for one more standby of task t: the rack, then room in its share,
// then what is there already, then the load.
func (s *standbyPlacer) better(t, a, b int) bool {
	full := func(m int) int {
		if s.load[m] >= s.share[m] {
			return 1
		}
		return 0
	}
	c := cmp.Or(
		cmp.Compare(s.used[s.rack[a]], s.used[s.rack[b]]),
		cmp.Compare(full(a), full(b)),
		cmp.Compare(s.class(t, a), s.class(t, b)))
	if c != 0 {
		return c < 0
	}
	return s.busier(s.load, b, a)
}

// How good a place is for a standby of a task by what it has of it.
const (
	classStandby = iota // is its standby and has caught up
	classReady          // has caught up
	classGiven          // is its standby or warm-up and has some state
	classWanted         // will have the active, so has to read up anyway
	classState          // has some state
	classNothing
)

func (p *plan) class(t, m int) int {
	class := classNothing
	if i, ok := p.find(t, m); ok {
		switch c := p.copies[t][i]; {
		case p.caughtUp(c) && c.stood:
			return classStandby
		case p.caughtUp(c):
			return classReady
		case c.given && c.state:
			return classGiven
		case c.state:
			class = classState
		case c.given:
			class = classGiven
		}
	}
	if p.wanted[t] == m {
		class = min(class, classWanted)
	}
	return class
}

// protect puts copies that have caught up in the place of new standbys that have not.
func (s *standbyPlacer) protect(t int) {
	for i, m := range s.standbys[t] {
		if s.class(t, m) <= classReady {
			continue
		}
		best := -1
		for _, c := range s.copies[t] {
			if s.caughtUp(c) && s.free(t, c.member) && (best < 0 || s.class(t, c.member) < s.class(t, best)) {
				best = c.member
			}
		}
		if best < 0 {
			return // nor for the other standbys
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
