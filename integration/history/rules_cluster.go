package history

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"time"
)

// monotonic: a replica never goes back within one life of its node.
func (h *History) monotonic(report func(string, ...any)) {
	type life struct {
		Partition
		node string
		life int
	}
	type seen struct {
		from, to time.Duration
		position int64
		who      any
	}
	byLife := make(map[life][]seen)
	var order []life
	add := func(p Partition, r Replica, s seen) {
		if r.Life == 0 || r.Position < 0 {
			return
		}
		l := life{p, r.Node, r.Life}
		if byLife[l] == nil {
			order = append(order, l)
		}
		byLife[l] = append(byLife[l], s)
	}
	h.answered(func(r *Read) { add(r.Partition, r.Served, seen{r.Invoked, r.Returned, r.Served.Position, r}) })
	for i := range h.Observations {
		o := &h.Observations[i]
		add(o.Partition, o.Replica, seen{o.At, o.At, o.Replica.Position, o})
	}
	for _, l := range order {
		began := byLife[l]
		slices.SortStableFunc(began, func(a, b seen) int { return cmp.Compare(a.from, b.from) })
		ended := slices.SortedStableFunc(slices.Values(began), func(a, b seen) int { return cmp.Compare(a.to, b.to) })
		var furthest *seen
		for _, s := range began {
			for len(ended) > 0 && ended[0].to < s.from {
				if furthest == nil || ended[0].position > furthest.position {
					furthest = &ended[0]
				}
				ended = ended[1:]
			}
			if furthest != nil && furthest.position > s.position {
				report("%s: but before that: %s", s.who, furthest.who)
			}
		}
	}
}

// available: a read that takes any replica is answered while one is there and can be reached. One that is not about a
// single partition fails only if there is none for one of them.
func (h *History) available(report func(string, ...any)) {
	nodes := slices.Sorted(maps.Keys(h.looks))
	for i := range h.Reads {
		r := &h.Reads[i]
		if r.Failed == "" || r.Direct || r.Policy.Mode != Any || r.Policy.AtLeast != nil ||
			r.Policy.MaxStaleness != Unknown || r.Policy.MaxOffsetLag != Unknown {
			continue
		}
		about := []Partition{r.Partition}
		if r.Partition.Partition == Unknown {
			about = nil
			for _, p := range h.partitions() {
				if p.Store == r.Store {
					about = append(about, p)
				}
			}
		}
		var who []string
		for _, p := range about {
			i := slices.IndexFunc(nodes, func(n string) bool {
				return h.holds(n, p, r.Invoked-h.Grace, r.Returned) && h.reachable(n, r.Router, r.Invoked-h.Grace, r.Returned)
			})
			if i < 0 {
				who = nil
				break
			}
			who = append(who, nodes[i])
		}
		if len(who) > 0 {
			report("%s: but %s held the partition and could be reached", r, strings.Join(slices.Compact(who), " and "))
		}
	}
}

// partitions are all that a node ever held.
func (h *History) partitions() []Partition {
	all := make(map[Partition]bool)
	for _, l := range h.Looks {
		for _, p := range l.Replicas {
			all[p] = true
		}
	}
	return sorted(all)
}

// holds says whether every look at the node from the last one before from to the first one after to showed the partition.
func (h *History) holds(node string, p Partition, from, to time.Duration) bool {
	looks := h.looks[node]
	first := sort.Search(len(looks), func(i int) bool { return looks[i].At >= from }) - 1
	if first < 0 {
		return false
	}
	for _, l := range looks[first:] {
		if !slices.Contains(l.Replicas, p) {
			return false
		}
		if l.At > to {
			return true
		}
	}
	return false
}

// reachable says whether the test left node, router and the link between them alone.
func (h *History) reachable(node, router string, from, to time.Duration) bool {
	for _, o := range h.Outages {
		concerns := (o.Node == "" || o.Node == node) && (o.Router == "" || o.Router == router)
		if concerns && o.From <= to && o.To >= from {
			return false
		}
	}
	return true
}

// grown: the committed values of an entry only grow.
func (h *History) grown(report func(string, ...any)) {
	for _, p := range sorted(h.byPartition) {
		last := make(map[Entry]Commit)
		for _, c := range h.byPartition[p] {
			if c.Deleted {
				continue
			}
			if before, ok := last[c.Entry]; ok && number(c.Value) <= number(before.Value) {
				report("%s %s: %q was committed at offset %d after %q at %d", p, c.Entry, c.Value, c.Offset, before.Value, before.Offset)
			}
			last[c.Entry] = c
		}
	}
}

// final: the last committed value of each entry is the right one, and there are no others.
func (h *History) final(report func(string, ...any)) {
	stores := make(map[string]bool)
	wanted := make(map[Partition]map[Entry]bool)
	for _, want := range h.Final {
		stores[want.Store] = true
		if wanted[want.Partition] == nil {
			wanted[want.Partition] = make(map[Entry]bool)
		}
		wanted[want.Partition][want.Entry] = true
		commits := h.byPartition[want.Partition]
		indexes := h.byEntry[want.Partition][want.Entry]
		if len(indexes) == 0 {
			if !want.Deleted {
				report("%s %s: nothing was ever committed, want %q", want.Partition, want.Entry, want.Value)
			}
			continue
		}
		if c := commits[indexes[len(indexes)-1]]; c.Value != want.Value || c.Deleted != want.Deleted {
			report("%s %s: the last value is %q (deleted %v), want %q (deleted %v)", want.Partition, want.Entry, c.Value, c.Deleted, want.Value, want.Deleted)
		}
	}
	for _, p := range sorted(h.byPartition) {
		if !stores[p.Store] {
			continue
		}
		for _, row := range h.state(p, math.MaxInt64, nil) {
			if !wanted[p][row.Entry] {
				report("%s %s: the last value is %q, and nothing was to be there", p, row.Entry, row.Value)
			}
		}
	}
}

// idle: what has caught up is at lag 0, whatever its changelog ends with.
func (h *History) idle(report func(string, ...any)) {
	for _, o := range h.Settled {
		if r := o.Replica; !r.Running || r.OffsetLag != 0 || r.TimeLag == Unknown || r.Position <= h.newest(o.Partition, o.At) {
			report("%s: it has not caught up", o)
		}
	}
}
