package store

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

// Value is what a key has.
type Value struct {
	Bytes     []byte // never nil for a key that is found; the caller owns it
	Timestamp int64  // of the record, in milliseconds
}

// Entry is a key with its value; the caller owns the bytes of both.
type Entry struct {
	Key   []byte
	Value Value
	Empty bool // the value has no bytes; set in scans, without values too
}

// Reader reads a store, or a store under an Overlay.
type Reader interface {
	// Get returns a key's value and whether the key is there. The caller owns the bytes.
	Get(key []byte) (Value, bool, error)

	// Range yields the entries from a key, inclusive, to another, exclusive, in the byte order of the keys or against
	// it; nil is unbounded. An error is the last thing that it yields: a range that ends without one is complete.
	Range(from, to []byte, reverse bool) iter.Seq2[Entry, error]

	// Scan is Range with more to choose.
	Scan(Scan) iter.Seq2[Entry, error]

	// Schema is the store's kind. Of a window, session or versioned store the keys here are internal ones: read it with a
	// WindowReader, SessionReader or VersionedReader. Expired windows and sessions are not there in any read.
	Schema() Schema

	// StreamTime is the stream time of what it shows now, in milliseconds, or NoStreamTime.
	StreamTime() int64

	// Pin returns what the reader shows now, to be read several times. It must be released.
	Pin() (*Snapshot, error)
}

// applied is a state that reads can see: all entries up to a timestamp.
type applied struct {
	ts   uint64
	at   Checkpoint
	pins atomic.Int64 // reads and snapshots that need the versions visible at ts
}

// pin returns the newest state and keeps its versions from being discarded.
func (s *KV) pin() *applied {
	for {
		st := s.cur.Load()
		st.pins.Add(1)
		if s.cur.Load() == st {
			return st // published still, so the writer has not yet looked at its pins to drop it
		}
		st.pins.Add(-1)
	}
}

// publish makes a state the newest, and lets Badger discard the versions that nobody can read any more.
func (s *KV) publish(st *applied) {
	s.w.live = append(s.w.live, st)
	s.cur.Store(st)
	discard := st.ts
	s.w.live = slices.DeleteFunc(s.w.live, func(old *applied) bool {
		if old != st && old.pins.Load() == 0 {
			return true
		}
		discard = min(discard, old.ts)
		return false
	})
	s.db.SetDiscardTs(discard)
}

// Get returns a key's value, whether the key is there, and the checkpoint at which that is so. It is one Badger read.
func (s *KV) Get(key []byte) (Value, bool, Checkpoint, error) {
	if !s.enter() {
		return Value{}, false, Checkpoint{}, ErrClosed
	}
	defer s.leave()
	st := s.pin()
	defer st.pins.Add(-1)
	v, found, err := s.getAt(st, key)
	return v, found, st.at, err
}

// Reader returns a reader of the newest state: each Get and each Range sees what was applied last when it began.
// It is what a task's Overlay lies on. It needs no release and may be used by many goroutines.
func (s *KV) Reader() Reader {
	return latest{s}
}

type latest struct{ s *KV }

// Get implements Reader.
func (r latest) Get(key []byte) (Value, bool, error) {
	v, found, _, err := r.s.Get(key)
	return v, found, err
}

// Range implements Reader.
func (r latest) Range(from, to []byte, reverse bool) iter.Seq2[Entry, error] {
	return r.Scan(Scan{From: from, To: to, Reverse: reverse})
}

// Scan implements Reader.
func (r latest) Scan(sc Scan) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if !r.s.enter() {
			yield(Entry{}, ErrClosed)
			return
		}
		defer r.s.leave()
		st := r.s.pin()
		defer st.pins.Add(-1)
		r.s.scan(st, sc, yield)
	}
}

// Schema implements Reader.
func (r latest) Schema() Schema {
	return r.s.id.Schema
}

// StreamTime implements Reader.
func (r latest) StreamTime() int64 {
	return r.s.cur.Load().at.StreamTime
}

// Pin implements Reader.
func (r latest) Pin() (*Snapshot, error) {
	return r.s.Snapshot()
}

// pinned reads at a state that is pinned already.
type pinned struct {
	s  *KV
	st *applied
}

// Get implements Reader.
func (r pinned) Get(key []byte) (Value, bool, error) {
	if !r.s.enter() {
		return Value{}, false, ErrClosed
	}
	defer r.s.leave()
	return r.s.getAt(r.st, key)
}

// Range implements Reader.
func (r pinned) Range(from, to []byte, reverse bool) iter.Seq2[Entry, error] {
	return r.Scan(Scan{From: from, To: to, Reverse: reverse})
}

// Scan implements Reader.
func (r pinned) Scan(sc Scan) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if !r.s.enter() {
			yield(Entry{}, ErrClosed)
			return
		}
		defer r.s.leave()
		r.s.scan(r.st, sc, yield)
	}
}

// Schema implements Reader.
func (r pinned) Schema() Schema {
	return r.s.id.Schema
}

// StreamTime implements Reader.
func (r pinned) StreamTime() int64 {
	return r.st.at.StreamTime
}

// Pin implements Reader.
func (r pinned) Pin() (*Snapshot, error) {
	r.st.pins.Add(1)
	return NewSnapshot(r, r.st.at, func() { r.st.pins.Add(-1) }), nil
}

// getAt reads a key in a state. The caller is inside the gate and holds a pin.
func (s *KV) getAt(st *applied, key []byte) (Value, bool, error) {
	if s.id.Schema.Expired(st.at.StreamTime, key) {
		return Value{}, false, nil
	}
	v, found, err := s.lookUp(st, key)
	if errors.Is(err, ErrCorrupt) {
		// Between the look-up and the reading of a large value ReclaimSpace may have moved it, and Badger gives nothing for
		// it. What is damaged is so the second time too.
		v, found, err = s.lookUp(st, key)
	}
	return v, found, err
}

func (s *KV) lookUp(st *applied, key []byte) (Value, bool, error) {
	txn := s.db.NewTransactionAt(st.ts, false)
	defer txn.Discard()
	item, err := txn.Get(encodeKey(make([]byte, 0, encodedKeyLen(key)), key))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return Value{}, false, nil
	}
	if err != nil {
		return Value{}, false, err
	}
	if s.opt.hooks.found != nil {
		s.opt.hooks.found()
	}
	v, long, err := itemValue(item)
	if err != nil {
		return Value{}, false, err
	}
	if len(key) > maxPlainKey && !bytes.Equal(long, key) {
		return Value{}, false, corruptf("a key of %d bytes holds the value of another", len(key))
	}
	return v, true, nil
}

// itemValue copies the value of an entry.
func itemValue(item *badger.Item) (v Value, longKey []byte, err error) {
	b, err := item.ValueCopy(nil)
	if err != nil {
		return Value{}, nil, err
	}
	v, longKey, err = decodeValue(b)
	if err != nil {
		return Value{}, nil, corruptf("value at timestamp %d: %w", item.Version(), err)
	}
	return v, longKey, nil
}
