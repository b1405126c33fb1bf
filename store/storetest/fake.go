package storetest

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/iqgate/iqgate/store"
)

// Fake is a store in a map: the slow, obvious twin of store.KV, with faults on demand. It may be used by many
// goroutines.
type Fake struct {
	id store.ID

	mu struct {
		sync.Mutex
		state   state // replaced, never written to
		closed  bool
		applies int
		fail    func(n int, changes []store.Change, at store.Checkpoint) error
		calls   []Call
	}
}

// Call is an Apply that a Fake was asked for.
type Call struct {
	Changes []store.Change
	At      store.Checkpoint
	Err     error // what it answered
}

// state is one version of a Fake's content.
type state struct {
	values map[string]store.Value
	at     store.Checkpoint
}

// NewFake returns an empty fake store.
func NewFake(id store.ID) *Fake {
	f := &Fake{id: id}
	f.mu.state.at = store.Checkpoint{Position: -1, StreamTime: store.NoStreamTime}
	return f
}

// FailApply sets what decides whether an Apply fails: it is given the number of the Apply, from 1, and what that
// would apply. An Apply that fails changes nothing. Nil, the default, fails none.
func (f *Fake) FailApply(fail func(n int, changes []store.Change, at store.Checkpoint) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.fail = fail
}

// Calls returns every Apply so far, in order.
func (f *Fake) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.mu.calls)
}

// Reopen opens a closed fake again, with what it held.
func (f *Fake) Reopen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed = false
}

// ID implements Store.
func (f *Fake) ID() store.ID {
	return f.id
}

// Position implements Store.
func (f *Fake) Position() int64 {
	return f.Checkpoint().Position
}

// Checkpoint implements Store.
func (f *Fake) Checkpoint() store.Checkpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.state.at
}

// Apply implements Store.
func (f *Fake) Apply(changes []store.Change, at store.Checkpoint) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		return store.ErrClosed
	}
	f.mu.applies++
	err := f.apply(changes, at)
	f.mu.calls = append(f.mu.calls, Call{Changes: cloneChanges(changes), At: at, Err: err})
	return err
}

// apply runs with the lock held.
func (f *Fake) apply(changes []store.Change, at store.Checkpoint) error {
	old := f.mu.state
	if at.Position < old.at.Position {
		return &store.PositionError{Have: old.at.Position, Want: at.Position}
	}
	if f.mu.fail != nil {
		if err := f.mu.fail(f.mu.applies, changes, at); err != nil {
			return err
		}
	}
	for _, c := range changes {
		if err := f.id.Schema.CheckChange(&c); err != nil {
			return err
		}
	}
	next := state{
		values: old.values,
		at:     store.Checkpoint{Position: at.Position, Input: old.at.Input, StreamTime: old.at.StreamTime},
	}
	if len(changes) > 0 {
		next.values = maps.Clone(old.values)
		if next.values == nil {
			next.values = make(map[string]store.Value)
		}
		for _, c := range changes {
			var kept bool
			if next.at.StreamTime, kept = f.id.Schema.Admit(next.at.StreamTime, c.Key); !kept {
				continue
			}
			if c.Delete {
				delete(next.values, string(c.Key))
			} else {
				next.values[string(c.Key)] = copyValue(store.Value{Bytes: c.Value, Timestamp: c.Timestamp})
			}
		}
	}
	if len(at.Input) > 0 {
		next.at.Input = maps.Clone(old.at.Input)
		if next.at.Input == nil {
			next.at.Input = make(map[store.TopicPartition]int64)
		}
		maps.Copy(next.at.Input, at.Input)
	}
	f.mu.state = next
	return nil
}

// Get implements Store.
func (f *Fake) Get(key []byte) (store.Value, bool, store.Checkpoint, error) {
	st, err := f.now()
	if err != nil {
		return store.Value{}, false, store.Checkpoint{}, err
	}
	v, found := st.get(f.id.Schema, key)
	return v, found, st.at, nil
}

// Snapshot implements Store.
func (f *Fake) Snapshot() (*store.Snapshot, error) {
	st, err := f.now()
	if err != nil {
		return nil, err
	}
	return f.snapshot(st), nil
}

func (f *Fake) snapshot(st state) *store.Snapshot {
	at := func() (state, error) {
		_, err := f.now()
		return st, err
	}
	return store.NewSnapshot(reader{f, at}, st.at, func() {})
}

// Reader implements Store.
func (f *Fake) Reader() store.Reader {
	return reader{f, f.now}
}

// Close implements Store.
func (f *Fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed = true
	return nil
}

func (f *Fake) now() (state, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed {
		return state{}, store.ErrClosed
	}
	return f.mu.state, nil
}

// reader reads the state that at gives.
type reader struct {
	f  *Fake
	at func() (state, error)
}

// Get implements store.Reader.
func (r reader) Get(key []byte) (store.Value, bool, error) {
	st, err := r.at()
	if err != nil {
		return store.Value{}, false, err
	}
	v, found := st.get(r.f.id.Schema, key)
	return v, found, nil
}

// Schema implements store.Reader.
func (r reader) Schema() store.Schema {
	return r.f.id.Schema
}

// StreamTime implements store.Reader.
func (r reader) StreamTime() int64 {
	st, _ := r.at()
	return st.at.StreamTime
}

// Pin implements store.Reader.
func (r reader) Pin() (*store.Snapshot, error) {
	st, err := r.at()
	if err != nil {
		return nil, err
	}
	return r.f.snapshot(st), nil
}

// Range implements store.Reader.
func (r reader) Range(from, to []byte, reverse bool) iter.Seq2[store.Entry, error] {
	return r.Scan(store.Scan{From: from, To: to, Reverse: reverse})
}

// Scan implements store.Reader.
func (r reader) Scan(sc store.Scan) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		st, err := r.at()
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		keys := slices.Sorted(maps.Keys(st.values))
		if sc.Reverse {
			slices.Reverse(keys)
		}
		for _, k := range keys {
			key := []byte(k)
			if bytes.Compare(key, sc.From) < 0 || sc.To != nil && bytes.Compare(key, sc.To) >= 0 || sc.Keep != nil && !sc.Keep(key) {
				continue
			}
			v, found := st.get(r.f.id.Schema, key)
			if !found {
				continue
			}
			if _, err := r.f.now(); err != nil {
				yield(store.Entry{}, err)
				return
			}
			e := store.Entry{Key: key, Value: v, Empty: len(v.Bytes) == 0}
			if sc.KeysOnly {
				e.Value = store.Value{}
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (st state) get(schema store.Schema, key []byte) (store.Value, bool) {
	v, found := st.values[string(key)]
	if !found || schema.Expired(st.at.StreamTime, key) {
		return store.Value{}, false
	}
	return copyValue(v), true
}

func copyValue(v store.Value) store.Value {
	return store.Value{Bytes: append([]byte{}, v.Bytes...), Timestamp: v.Timestamp}
}

func cloneChanges(changes []store.Change) []store.Change {
	clones := make([]store.Change, len(changes))
	for i, c := range changes {
		clones[i] = store.Change{
			Key: bytes.Clone(c.Key), Value: bytes.Clone(c.Value), Delete: c.Delete, Timestamp: c.Timestamp,
		}
	}
	return clones
}
