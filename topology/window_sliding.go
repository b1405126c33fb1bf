package topology

// slidingAggregator keeps an aggregate for each key and sliding window, and forwards what changed. A window [start, end] is
// closed when end + grace < stream time (Kafka Streams' KStreamSlidingWindowAggregate, KIP-450).
//
// The windows of a key are found by the records alone. With a difference d a record at t belongs to every window that
// begins from t-d to t, and may make three:
//
//   - its own, which ends with it: [t-d, t]. What else is in it is what is in the last window that ends before t, if that
//     reaches into it: had a record fallen out since, the window after that record would end later.
//   - the one that begins after it: [t+1, t+1+d], if a record is in it. What is in it is what is in the last window that
//     holds t and ends later: nothing before t is, by the same argument.
//   - the one that begins after the record before it, [p+1, p+1+d], if it is the first in it.
//
// All of that is told from the windows that begin from t-2d to t+1. Invariant: the timestamp of a window is that of its
// last record.
type slidingAggregator struct{ windowKeeper }

// slidingWindow is a window that the store holds.
type slidingWindow struct {
	start int64
	state state
}

// slidingWrite is what a record does to a window.
type slidingWrite struct {
	start int64
	base  state // the aggregate before the record
	found bool  // the store holds base
	add   bool  // the record belongs to the window
}

// Process implements Processor.
func (a *slidingAggregator) Process(ctx Context, r Record) error {
	if a.skip(ctx, r) {
		return nil
	}
	store := ctx.WindowStore(a.store)
	closed := a.closed(ctx, store.StreamTime(), r)
	if r.Timestamp+a.size < closed {
		ctx.Skip(SkipLate)
		return nil
	}
	var windows []slidingWindow
	for e, err := range store.FetchRange(r.Key, max(0, r.Timestamp-2*a.size), r.Timestamp+1) {
		if err != nil {
			return err
		}
		windows = append(windows, slidingWindow{e.Start, present(e.Value, e.Timestamp, true)})
	}
	a.writes = a.writes[:0]
	for _, w := range slide(windows, r.Timestamp, a.size) {
		switch {
		case !w.add:
			a.writes = append(a.writes, windowWrite{start: w.start, next: w.base})
		case w.start+a.size < closed:
			ctx.Skip(SkipLate)
		default:
			if err := a.add(w.start, w.base, w.found, r); err != nil {
				return err
			}
		}
	}
	return a.write(ctx, store, r.Key)
}

// slide says what a record at t does, with a time difference of d. The windows are those of its key that begin from t-2d to
// t+1, in ascending order. A window may be named that is closed.
func slide(windows []slidingWindow, t, d int64) []slidingWrite {
	own := max(0, t-d)
	var writes []slidingWrite
	var before, inside *slidingWindow // the last one that ends before t; the last one that holds t and ends after it
	starts := make(map[int64]bool, len(windows))
	previous := int64(-1) // the last record before t that is known by a window's end: another's next window is there for sure
	for i := range windows {
		w := &windows[i]
		starts[w.start] = true
		if w.start > t {
			continue
		}
		// Any window may be the one that tells: those that were closed did not take the last records in.
		if w.state.timestamp < t {
			previous = max(previous, w.state.timestamp)
		}
		if w.start+d < t {
			before = w
			continue
		}
		if w.start+d > t {
			inside = w
		}
		writes = append(writes, slidingWrite{start: w.start, base: w.state, found: true, add: true})
	}
	if next := previous + 1; previous >= 0 && next != own && next+d >= t && !starts[next] {
		writes = append(writes, slidingWrite{start: next, add: true})
	}
	if !starts[own] {
		w := slidingWrite{start: own, add: true}
		if before != nil && before.state.timestamp >= own {
			w.base = before.state
		}
		writes = append(writes, w)
	}
	if inside != nil && inside.state.timestamp > t && !starts[t+1] {
		writes = append(writes, slidingWrite{start: t + 1, base: inside.state})
	}
	return writes
}
