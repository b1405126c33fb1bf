package store

import (
	"iter"
	"sync/atomic"
)

// Snapshot reads a store as it was when the snapshot was taken, whatever is applied meanwhile. It keeps old versions
// on disk until it is released. It may be used by many goroutines, but must not be released while one reads.
type Snapshot struct {
	r        Reader
	at       Checkpoint
	release  func()
	released atomic.Bool
}

// NewSnapshot makes a snapshot from a reader that does not change and what to do when it is released. It is for
// implementations of a store; KV.Snapshot takes one.
func NewSnapshot(r Reader, at Checkpoint, release func()) *Snapshot {
	return &Snapshot{r: r, at: at, release: release}
}

// Snapshot pins the last applied state. It must be released.
func (s *KV) Snapshot() (*Snapshot, error) {
	if !s.enter() {
		return nil, ErrClosed
	}
	defer s.leave()
	st := s.pin()
	return NewSnapshot(pinned{s, st}, st.at, func() { st.pins.Add(-1) }), nil
}

// Get implements Reader. After Release it is ErrReleased.
func (sn *Snapshot) Get(key []byte) (Value, bool, error) {
	if sn.released.Load() {
		return Value{}, false, ErrReleased
	}
	return sn.r.Get(key)
}

// Range implements Reader. After Release it is ErrReleased.
func (sn *Snapshot) Range(from, to []byte, reverse bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if sn.released.Load() {
			yield(Entry{}, ErrReleased)
			return
		}
		sn.r.Range(from, to, reverse)(yield)
	}
}

// Scan implements Reader. After Release it is ErrReleased.
func (sn *Snapshot) Scan(sc Scan) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if sn.released.Load() {
			yield(Entry{}, ErrReleased)
			return
		}
		sn.r.Scan(sc)(yield)
	}
}

// Schema implements Reader.
func (sn *Snapshot) Schema() Schema {
	return sn.r.Schema()
}

// Pin implements Reader: the new snapshot is the same state and has a release of its own.
func (sn *Snapshot) Pin() (*Snapshot, error) {
	if sn.released.Load() {
		return nil, ErrReleased
	}
	return sn.r.Pin()
}

// StreamTime is the stream time as of the snapshot, in milliseconds, or NoStreamTime.
func (sn *Snapshot) StreamTime() int64 {
	return sn.at.StreamTime
}

// Position is the next changelog offset to apply, as of the snapshot; -1 when nothing was ever applied.
func (sn *Snapshot) Position() int64 {
	return sn.at.Position
}

// Input is the input position as of the snapshot. It is shared and must not be written to.
func (sn *Snapshot) Input() map[TopicPartition]int64 {
	return sn.at.Input
}

// Checkpoint is position and input position as of the snapshot.
func (sn *Snapshot) Checkpoint() Checkpoint {
	return sn.at
}

// Release ends the snapshot; a second one does nothing. It may be called after the store is closed.
func (sn *Snapshot) Release() {
	if sn.released.CompareAndSwap(false, true) {
		sn.release()
	}
}
