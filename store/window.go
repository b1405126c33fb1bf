package store

import (
	"fmt"
	"iter"
	"math"
)

// KindError says that a store was asked to be what it is not.
type KindError struct {
	Want Kind
	Have Kind
}

// Error gives both kinds.
func (e *KindError) Error() string {
	return fmt.Sprintf("it is a %s store, not a %s store", e.Have, e.Want)
}

func wantKind(s Schema, want Kind) error {
	if s.Kind != want {
		return &KindError{Want: want, Have: s.Kind}
	}
	return nil
}

// WindowEntry is the value of a key in a window; the caller owns the bytes.
type WindowEntry struct {
	Key        []byte
	Start, End int64 // of the window, in milliseconds; Start included, End not
	Value      Value
	Cursor     []byte // for ScanOptions.After
}

// WindowReader reads a window store: the newest state, a Snapshot, or an Overlay. Expired windows are not there.
type WindowReader struct {
	r      Reader
	schema Schema
}

// NewWindowReader reads r, which must be of a window store; else it is a *KindError.
func NewWindowReader(r Reader) (WindowReader, error) {
	s := r.Schema()
	return WindowReader{r, s}, wantKind(s, KindWindow)
}

// Get returns the value of a key in the window that starts at a time, in milliseconds, and whether there is one.
func (w WindowReader) Get(key []byte, start int64) (Value, bool, error) {
	return w.r.Get(internalKey(key, start))
}

// Fetch yields a key's windows that start within times, by their starts or, in reverse, against them
// (Kafka Streams' fetch and backwardFetch). An error is the last thing that it yields.
func (w WindowReader) Fetch(key []byte, times Times, o ScanOptions) iter.Seq2[WindowEntry, error] {
	sc := w.schema.scan(OneKey(key), o)
	sc.narrow(internalKey(key, times.From), append(internalKey(key, times.To), 0))
	return w.scan(sc)
}

// FetchRange yields the windows of a range of keys that start within times, by key and then by start, or against that
// order. (Kafka Streams' order differs: there it is by segment first, or with the default store not by key at all.)
func (w WindowReader) FetchRange(keys KeyRange, times Times, o ScanOptions) iter.Seq2[WindowEntry, error] {
	sc := w.schema.scan(keys, o)
	if times != AllTimes {
		sc.Keep = func(internal []byte) bool { return times.contains(w.schema.timeOf(internal)) }
	}
	return w.scan(sc)
}

// Count is the number of windows that FetchRange yields. It reads no values.
func (w WindowReader) Count(keys KeyRange, times Times) (int64, error) {
	return count(w.FetchRange(keys, times, ScanOptions{KeysOnly: true}))
}

func (w WindowReader) scan(sc Scan) iter.Seq2[WindowEntry, error] {
	return decoded(w.r.Scan(sc), w.schema, func(key []byte, start, _ int64, e Entry) WindowEntry {
		return WindowEntry{Key: key, Start: start, End: w.schema.windowEnd(start), Value: e.Value, Cursor: e.Key}
	})
}

// windowEnd is the end of a window; it stops at the largest time, as in Kafka Streams.
func (s Schema) windowEnd(start int64) int64 {
	if end := start + s.WindowSize.Milliseconds(); end >= start {
		return end
	}
	return math.MaxInt64
}

// decoded turns entries into those of a kind. A key that is none of the kind's ends it with an error.
func decoded[E any](entries iter.Seq2[Entry, error], s Schema, of func(key []byte, first, second int64, e Entry) E) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var none E
		for e, err := range entries {
			if err != nil {
				yield(none, err)
				return
			}
			key, first, second, err := s.parse(e.Key)
			if err != nil {
				yield(none, corruptf("%w", err))
				return
			}
			if !yield(of(key, first, second, e), nil) {
				return
			}
		}
	}
}

// count is the number of entries that come before the end or the first error.
func count[E any](entries iter.Seq2[E, error]) (n int64, err error) {
	for _, err := range entries {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// WindowStore is a task's window store: what its Overlay shows, and writes to it.
type WindowStore struct {
	WindowReader
	o *Overlay
}

// NewWindowStore reads and writes an overlay over a window store; over another it is a *KindError.
func NewWindowStore(o *Overlay) (WindowStore, error) {
	r, err := NewWindowReader(o)
	return WindowStore{r, o}, err
}

// Put writes a key's value in the window that starts at a time, with its record's timestamp, all in milliseconds. It
// reports whether the window is kept: one that is expired already is dropped, and to be counted as such.
func (w WindowStore) Put(key []byte, start int64, value []byte, timestamp int64) (kept bool) {
	internal := internalKey(key, start)
	if !w.o.admits(internal) {
		return false
	}
	w.o.Put(internal, value, timestamp)
	return true
}

// Delete removes a key's value from a window, whether or not it is there. It reports whether the window is kept, as Put.
func (w WindowStore) Delete(key []byte, start, timestamp int64) (kept bool) {
	internal := internalKey(key, start)
	if !w.o.admits(internal) {
		return false
	}
	w.o.Delete(internal, timestamp)
	return true
}
