package topology

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"
)

// Aggregator says in Go how the records of a window become its aggregate. Both functions must be pure.
type Aggregator struct {
	// Add returns the aggregate after one more record; aggregate is nil for the first one. The result must not be nil.
	// Required.
	Add func(r Record, aggregate []byte) ([]byte, error)
	// Merge returns the aggregate of two sessions that become one. Required for sessions, not used otherwise.
	Merge func(key, earlier, later []byte) ([]byte, error)
}

// Counter counts the records of a window: int64.
func Counter() Aggregator {
	return Aggregator{
		Add: func(_ Record, aggregate []byte) ([]byte, error) { return add(NumberInt64, aggregate, one) },
		Merge: func(_, earlier, later []byte) ([]byte, error) {
			return add(NumberInt64, earlier, later)
		},
	}
}

// TypedAggregator returns an aggregator on Go values, which are read and written by codecs; aggregates should be the one
// that the store's StoreSpec names. add returns the aggregate after one more record, and gets the zero value of A for the
// first one; merge returns that of two sessions that become one, and may be nil where there are no sessions.
func TypedAggregator[V, A any](values Codec[V], aggregates Codec[A], add func(aggregate A, value V) (A, error), merge func(earlier, later A) (A, error)) Aggregator {
	decode := func(what string, key, data []byte) (A, error) {
		v, err := aggregates.Decode(data)
		if err != nil {
			return v, fmt.Errorf("%s of %q: %w", what, key, err)
		}
		return v, nil
	}
	a := Aggregator{Add: func(r Record, data []byte) ([]byte, error) {
		value, err := values.Decode(r.Value)
		if err != nil {
			return nil, fmt.Errorf("value of %q: %w", r.Key, err)
		}
		var old A
		if data != nil {
			if old, err = decode("aggregate", r.Key, data); err != nil {
				return nil, err
			}
		}
		next, err := add(old, value)
		if err != nil {
			return nil, err
		}
		return aggregates.Encode(next)
	}}
	if merge == nil {
		return a
	}
	a.Merge = func(key, earlier, later []byte) ([]byte, error) {
		first, err := decode("earlier aggregate", key, earlier)
		if err != nil {
			return nil, err
		}
		second, err := decode("later aggregate", key, later)
		if err != nil {
			return nil, err
		}
		merged, err := merge(first, second)
		if err != nil {
			return nil, err
		}
		return aggregates.Encode(merged)
	}
	return a
}

// fold is an aggregator as the processors of windows use it.
type fold interface {
	// check returns the reason to skip a record for, or nothing.
	check(r Record) string
	// add returns the state after one more record.
	add(old state, r Record) (state, error)
	// merge returns the value of two sessions that become one.
	merge(key, earlier, later []byte) ([]byte, error)
	// sessionTime is the timestamp of a session's state.
	sessionTime(start, end int64) int64
}

// windowedSupplier makes the processor of windows.
func windowedSupplier(store string, w Windows, retention time.Duration, f fold) func() Processor {
	k := windowKeeper{fold: f, store: store, windows: w, grace: w.Grace.Milliseconds(), size: w.Size.Milliseconds()}
	switch w.Kind {
	case SlidingWindows:
		return func() Processor { return &slidingAggregator{k} }
	case SessionWindows:
		return func() Processor { return &sessionAggregator{k, retention.Milliseconds()} }
	case NoWindows, TumblingWindows, HoppingWindows:
	}
	return func() Processor { return &windowAggregator{k} }
}

func (a Aggregator) check(r Record) string { return checkOperand(r) }

func (a Aggregator) add(old state, r Record) (state, error) {
	next := state{timestamp: r.Timestamp}
	if old.value != nil {
		next.timestamp = max(old.timestamp, r.Timestamp)
	}
	var err error
	next.value, err = a.Add(r, old.value)
	return next, notNil(next.value, err)
}

func (a Aggregator) merge(key, earlier, later []byte) ([]byte, error) {
	value, err := a.Merge(key, earlier, later)
	return value, notNil(value, err)
}

func notNil(value []byte, err error) error {
	if err == nil && value == nil {
		return errors.New("the aggregator returned nil")
	}
	return err
}

func (Aggregator) sessionTime(_, end int64) int64 { return end }

// opFold is a ready-made operation.
type opFold struct {
	op     Op
	number NumberType
}

func (f opFold) check(r Record) string {
	skip := checkOperand(r)
	if skip == "" && f.op.numeric() && len(r.Value) != 8 {
		return SkipMalformed
	}
	return skip
}

func (f opFold) add(old state, r Record) (state, error) {
	return step(f.op, f.number, old, r.Value, r.Timestamp)
}

func (f opFold) merge(_, earlier, later []byte) ([]byte, error) {
	return mergeValues(f.op, f.number, earlier, later)
}

// sessionTime is the timestamp of the record that first or latest has kept: the first or last of the session.
func (f opFold) sessionTime(start, end int64) int64 {
	if f.op == OpFirst {
		return start
	}
	return end
}

// maxTimestamp is the largest timestamp that windows take; sums with durations do not overflow.
const maxTimestamp = math.MaxInt64 / 2

func checkOperand(r Record) string {
	switch {
	case r.Key == nil:
		return SkipNullKey
	case r.Value == nil:
		return SkipNullValue
	}
	return ""
}

func checkTimestamp(r Record) string {
	if r.Timestamp < 0 || r.Timestamp > maxTimestamp {
		return SkipTimestamp
	}
	return ""
}

// windowKeeper is what the processors of all windows have in common. Times are in milliseconds.
//
// A record is added to all of its windows before the first is written, so that one that fails, such as by ErrOverflow in a
// single window, changes none.
type windowKeeper struct {
	fold        fold
	store       string
	windows     Windows
	grace, size int64
	writes      []windowWrite // of the record in hand
}

// windowWrite is what a window becomes.
type windowWrite struct {
	start     int64
	old, next state
	found     bool // the store holds old
}

// skip counts a record that cannot be used.
func (k *windowKeeper) skip(ctx Context, r Record) bool {
	reason := k.fold.check(r)
	if reason == "" {
		reason = checkTimestamp(r)
	}
	if reason != "" {
		ctx.Skip(reason)
	}
	return reason != ""
}

// closed returns the time before which windows that have ended are closed: the stream time less the grace. After a restart
// the store knows a part of the stream time.
func (k *windowKeeper) closed(ctx Context, stored int64, r Record) int64 {
	return max(ctx.ObserveTime(r.Timestamp), stored) - k.grace
}

// add adds the record to a window whose state is old.
func (k *windowKeeper) add(start int64, old state, found bool, r Record) error {
	next, err := k.fold.add(old, r)
	k.writes = append(k.writes, windowWrite{start, old, next, found})
	return err
}

// write writes and forwards what changed.
func (k *windowKeeper) write(ctx Context, store WindowStore, key []byte) error {
	for _, w := range k.writes {
		changed := !w.found || !bytes.Equal(w.old.value, w.next.value)
		if !changed && w.next.timestamp == w.old.timestamp {
			continue
		}
		if err := store.Put(key, w.next.value, w.start, w.next.timestamp); err != nil {
			return err
		}
		if changed {
			ctx.Forward(Record{Key: WindowKey(key, w.start), Value: w.next.value, Timestamp: w.next.timestamp})
		}
	}
	return nil
}

// windowAggregator keeps an aggregate for each key and tumbling or hopping window, and forwards what changed. A window
// [start, end) is closed when end + grace <= stream time (Kafka Streams' KStreamWindowAggregate).
type windowAggregator struct{ windowKeeper }

// Process implements Processor.
func (a *windowAggregator) Process(ctx Context, r Record) error {
	if a.skip(ctx, r) {
		return nil
	}
	store := ctx.WindowStore(a.store)
	closed := a.closed(ctx, store.StreamTime(), r)
	a.writes = a.writes[:0]
	for start := range a.windows.starts(r.Timestamp) {
		if start+a.size <= closed {
			ctx.Skip(SkipLate)
			continue
		}
		value, timestamp, found, err := store.Fetch(r.Key, start)
		if err != nil {
			return err
		}
		if err := a.add(start, present(value, timestamp, found), found, r); err != nil {
			return err
		}
	}
	return a.write(ctx, store, r.Key)
}

// present is the state that a store holds; an empty value, which a store may give as nil, is no absent one.
func present(value []byte, timestamp int64, found bool) state {
	if found && value == nil {
		value = nothing
	}
	return state{value, timestamp}
}
