package history

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// committed: what is read is the state at the position that the reply tells, and was committed.
func (h *History) committed(report func(string, ...any)) {
	h.answered(func(r *Read) {
		if r.Range != nil {
			return
		}
		c, ok := h.below(r.Partition, Entry{Key: r.Key}, r.Served.Position)
		switch exists := ok && !c.Deleted; {
		case r.Found && !exists:
			report("%s: at that position the key is absent", r)
		case !r.Found && exists:
			report("%s: at that position the value is %q of offset %d", r, c.Value, c.Offset)
		case r.Found && r.Value != c.Value:
			report("%s: at that position the value is %q of offset %d", r, c.Value, c.Offset)
		case ok && c.NotBefore > r.Returned:
			report("%s: it was committed at %s or later", r, c.NotBefore)
		}
	})
}

// fresh: what was committed longer ago than the time lag is there, and the lag is within the bound.
func (h *History) fresh(report func(string, ...any)) {
	h.answered(func(r *Read) {
		if bound := r.Policy.MaxStaleness; bound != Unknown {
			if r.Served.TimeLag == Unknown || r.Served.TimeLag > bound {
				report("%s: its time lag is not within the bound", r)
			}
			h.has(report, r.Partition, r.Served.Position, r.Invoked-bound, r)
		}
		if r.Served.TimeLag != Unknown {
			h.has(report, r.Partition, r.Served.Position, r.Invoked-r.Served.TimeLag, r)
		}
	})
	for _, o := range h.Observations {
		if o.Replica.TimeLag != Unknown {
			h.has(report, o.Partition, o.Replica.Position, o.At-o.Replica.TimeLag, o)
		}
	}
}

// has reports a state at position that lacks something committed before t.
func (h *History) has(report func(string, ...any), p Partition, position int64, t time.Duration, who any) {
	if newest := h.newest(p, t); newest >= position {
		report("%s: it has not offset %d, committed before %s", who, newest, t)
	}
}

// offsets: the end by which an offset lag was judged was no older than the reply says, nor than is allowed.
func (h *History) offsets(report func(string, ...any)) {
	// A serving active is at lag 0 by definition, also while a commit is in flight.
	serves := func(r Replica) bool { return r.Active && r.Running && r.LeaseValid }
	check := func(p Partition, r Replica, at time.Duration, who any) {
		if r.OffsetLag == Unknown || serves(r) {
			return
		}
		if newest := h.newest(p, at-r.SampleAge); newest >= r.Position+r.OffsetLag {
			report("%s: offset %d was committed before its sample was taken", who, newest)
		}
	}
	h.answered(func(r *Read) {
		check(r.Partition, r.Served, r.Invoked, r)
		bound := r.Policy.MaxOffsetLag
		if bound == Unknown {
			return
		}
		if r.Served.OffsetLag == Unknown {
			report("%s: its offset lag is not known", r)
		}
		if !serves(r.Served) && r.Served.SampleAge > h.SampleMaxAge {
			report("%s: its sample is older than %s", r, h.SampleMaxAge)
		}
		if newest := h.newest(r.Partition, r.Invoked-h.SampleMaxAge); newest >= r.Served.Position+bound {
			report("%s: offset %d was committed before the oldest sample that may be used", r, newest)
		}
	})
	for _, o := range h.Observations {
		check(o.Partition, o.Replica, o.At, o)
	}
}

// strong: everything committed before the read began is there.
func (h *History) strong(report func(string, ...any)) {
	h.answered(func(r *Read) {
		if r.Policy.Mode == Strong {
			h.has(report, r.Partition, r.Served.Position, r.Invoked, r)
		}
	})
}

// active: only the RUNNING active under its lease answers, and never one that another has replaced.
func (h *History) active(report func(string, ...any)) {
	byPartition := make(map[Partition][]*Read)
	h.answered(func(r *Read) {
		if r.Policy.Mode != Strong && r.Policy.Mode != Active {
			return
		}
		if !r.Served.Active || !r.Served.Running || !r.Served.LeaseValid {
			report("%s: it is not the serving active", r)
		}
		byPartition[r.Partition] = append(byPartition[r.Partition], r)
	})
	for _, p := range sorted(byPartition) {
		invoked := byPartition[p] // by Invoked
		returned := slices.SortedFunc(slices.Values(invoked), func(a, b *Read) int { return cmp.Compare(a.Returned, b.Returned) })
		var newest, furthest *Read // of those that had returned
		for _, r := range invoked {
			for len(returned) > 0 && returned[0].Returned < r.Invoked {
				before := returned[0]
				returned = returned[1:]
				if newest == nil || before.Served.Generation > newest.Served.Generation {
					newest = before
				}
				if furthest == nil || before.Served.Position > furthest.Served.Position {
					furthest = before
				}
			}
			if newest != nil && newest.Served.Node != r.Served.Node && newest.Served.Generation > r.Served.Generation {
				report("%s: but before that: %s", r, newest)
			}
			if furthest != nil && furthest.Served.Position > r.Served.Position {
				report("%s: but before that: %s", r, furthest)
			}
		}
	}
}

// position: an input position is true, and covers the one asked for.
func (h *History) position(report func(string, ...any)) {
	h.answered(func(r *Read) {
		for tp, want := range r.Policy.AtLeast {
			if r.Input[tp] < want {
				report("%s: its input position %v does not cover that", r, r.Input)
				break
			}
		}
		if r.Input == nil || r.Range != nil || !slices.Contains(h.Latest, r.Store) {
			return
		}
		// The newest input below the position is in the state, or one after it.
		var need *Input
		for i := range h.byInput[r.Key] {
			in := &h.byInput[r.Key][i]
			if in.Offset < r.Input[in.TopicPartition] && (need == nil || in.Offset > need.Offset) {
				need = in
			}
		}
		if need == nil || r.Found && number(r.Value) >= number(need.Value) {
			return
		}
		if !r.Found { // deleted by that input or a later one?
			for _, in := range h.byInput[r.Key] {
				if in.Deletes && in.Offset >= need.Offset {
					return
				}
			}
		} else if need.Deletes && number(r.Value) > number(need.Value) {
			return
		}
		report("%s: its input position %v covers offset %d with %q", r, r.Input, need.Offset, need.Value)
	})
}

// number is a value as a number, Unknown when it is none.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return Unknown
	}
	return n
}
