package store

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/tidwall/btree"
)

// Overlay holds the writes of a transaction that is not committed over a base that it reads through to. Its own
// writes come first, in ranges too. Nothing of it is ever in the database (I1): at a commit its Changes are applied,
// at an abort it is reset. One goroutine at a time may use it, except that Range may be left and written under: a range
// goes on with the overlay as it was when it began.
//
// It copies what it is given, and what it returns belongs to the caller, except for Changes.
//
// Its writes move a stream time of its own, which its reads go by. Reads of the store know nothing of it until a commit.
type Overlay struct {
	base   Reader
	schema Schema                     // of the base
	writes btree.Map[string, *Change] // by key; a *Change here is never written again, copies of the tree share them
	bytes  int64
	moved  int64 // the stream time of the writes alone
}

// NewOverlay returns an empty overlay over a base. The base of a task's overlay always shows what was applied last
// (KV.Reader).
func NewOverlay(base Reader) *Overlay {
	return &Overlay{base: base, schema: base.Schema(), moved: NoStreamTime}
}

// Schema implements Reader.
func (o *Overlay) Schema() Schema {
	return o.schema
}

// StreamTime implements Reader: the base's, or that of the overlay's own writes when that is later.
func (o *Overlay) StreamTime() int64 {
	if !o.schema.timed() {
		return NoStreamTime
	}
	return max(o.moved, o.base.StreamTime())
}

// admits reports whether a write would be kept at the overlay's stream time.
func (o *Overlay) admits(key []byte) bool {
	_, kept := o.schema.Admit(o.StreamTime(), key)
	return kept
}

// Get implements Reader.
func (o *Overlay) Get(key []byte) (Value, bool, error) {
	return o.now().Get(key)
}

// now is what the overlay shows now, without a copy of its writes.
func (o *Overlay) now() overlaid {
	return overlaid{writes: &o.writes, base: o.base, schema: o.schema, streamTime: o.StreamTime()}
}

// Range implements Reader: a merge of the overlay with the base, in which the overlay's entry for a key stands and
// its deletes hide.
func (o *Overlay) Range(from, to []byte, reverse bool) iter.Seq2[Entry, error] {
	return o.Scan(Scan{From: from, To: to, Reverse: reverse})
}

// Scan implements Reader.
func (o *Overlay) Scan(sc Scan) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		o.now().scan(sc, yield)
	}
}

// Pin implements Reader: the overlay as it is now, over the base as it is now. Later writes do not show in it.
func (o *Overlay) Pin() (*Snapshot, error) {
	base, err := o.base.Pin()
	if err != nil {
		return nil, err
	}
	now := o.now()
	now.writes, now.base = o.writes.Copy(), base
	at := base.Checkpoint()
	at.StreamTime = now.streamTime
	return NewSnapshot(now, at, base.Release), nil
}

// Put writes a value with its record's timestamp in milliseconds. A nil value is an empty one.
func (o *Overlay) Put(key, value []byte, timestamp int64) {
	o.write(key, Change{Value: append([]byte{}, value...), Timestamp: timestamp})
}

// Delete removes a key, whether or not it is there.
func (o *Overlay) Delete(key []byte, timestamp int64) {
	o.write(key, Change{Delete: true, Timestamp: timestamp})
}

func (o *Overlay) write(key []byte, c Change) {
	c.Key = append([]byte{}, key...)
	if o.schema.timed() {
		o.moved, _ = o.schema.Admit(o.moved, key)
	}
	o.bytes += c.size()
	if old, replaced := o.writes.Set(string(c.Key), &c); replaced {
		o.bytes -= old.size()
	}
}

// Changes returns the last write of each key, in the byte order of the keys. Each version of a key is a key here; versions
// are in the order of their times, so that no store that takes them one by one refuses one that the overlay took, and
// Kafka's compaction keeps the latest of a key. The changes share the overlay's memory and must not be written to; they
// stay valid after Reset.
func (o *Overlay) Changes() []Change {
	changes := make([]Change, 0, o.writes.Len())
	o.writes.Scan(func(_ string, w *Change) bool {
		changes = append(changes, *w)
		return true
	})
	if o.schema.Kind == KindVersioned {
		slices.SortStableFunc(changes, func(a, b Change) int {
			return cmp.Compare(o.schema.timeOf(a.Key), o.schema.timeOf(b.Key))
		})
	}
	return changes
}

// Len is the number of keys written.
func (o *Overlay) Len() int {
	return o.writes.Len()
}

// Bytes is the size of the keys and values of Changes.
func (o *Overlay) Bytes() int64 {
	return o.bytes
}

// Reset drops all writes.
func (o *Overlay) Reset() {
	o.writes.Clear()
	o.bytes = 0
	o.moved = NoStreamTime
}

// overlaid is writes over a base.
type overlaid struct {
	writes     *btree.Map[string, *Change]
	base       Reader
	schema     Schema
	streamTime int64 // of both
}

// Get implements Reader.
func (o overlaid) Get(key []byte) (Value, bool, error) {
	if o.schema.Expired(o.streamTime, key) {
		return Value{}, false, nil
	}
	w, ok := o.writes.Get(string(key))
	if !ok {
		return o.base.Get(key)
	}
	if w.Delete {
		return Value{}, false, nil
	}
	return w.value(), true, nil
}

// Range implements Reader.
func (o overlaid) Range(from, to []byte, reverse bool) iter.Seq2[Entry, error] {
	return o.Scan(Scan{From: from, To: to, Reverse: reverse})
}

// Scan implements Reader.
func (o overlaid) Scan(sc Scan) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) { o.scan(sc, yield) }
}

// Schema implements Reader.
func (o overlaid) Schema() Schema {
	return o.schema
}

// StreamTime implements Reader.
func (o overlaid) StreamTime() int64 {
	return o.streamTime
}

// Pin implements Reader. It is used for what is pinned already.
func (o overlaid) Pin() (*Snapshot, error) {
	base, err := o.base.Pin()
	if err != nil {
		return nil, err
	}
	at := base.Checkpoint()
	at.StreamTime = o.streamTime
	o.base = base
	return NewSnapshot(o, at, base.Release), nil
}

// scan merges the writes as they are now with the base.
func (o overlaid) scan(sc Scan, yield func(Entry, error) bool) {
	if sc.empty() {
		return
	}
	sc.Keep = o.keep(sc.Keep)
	own := newCursor(o.writes.Copy(), sc)
	for e, err := range o.base.Scan(sc) {
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for own.ok && own.before(e.Key) {
			if !own.yield(yield) {
				return
			}
		}
		if own.ok && own.at(e.Key) {
			if !own.yield(yield) {
				return
			}
			continue
		}
		if !yield(e, nil) {
			return
		}
	}
	for own.ok {
		if !own.yield(yield) {
			return
		}
	}
}

// keep leaves out what is expired at the stream time of both, which the base does not know.
func (o overlaid) keep(wanted func([]byte) bool) func([]byte) bool {
	if o.schema.Kind != KindWindow && o.schema.Kind != KindSession {
		return wanted
	}
	return func(key []byte) bool {
		return !o.schema.Expired(o.streamTime, key) && (wanted == nil || wanted(key))
	}
}

// cursor walks the writes within bounds.
type cursor struct {
	it btree.MapIter[string, *Change]
	b  Scan
	ok bool // it stands at a write within bounds
}

func newCursor(writes *btree.Map[string, *Change], b Scan) *cursor {
	c := &cursor{it: writes.Iter(), b: b}
	switch {
	case !b.Reverse:
		c.ok = c.it.Seek(string(b.From))
	case b.To == nil:
		c.ok = c.it.Last()
	case c.it.Seek(string(b.To)): // the first that is too high
		c.ok = c.it.Prev()
	default:
		c.ok = c.it.Last()
	}
	c.check()
	return c
}

func (c *cursor) check() {
	c.ok = c.ok && !c.b.passed(c.it.Value().Key)
}

func (c *cursor) next() {
	if c.b.Reverse {
		c.ok = c.it.Prev()
	} else {
		c.ok = c.it.Next()
	}
	c.check()
}

// before reports whether the cursor's key comes before another in the direction of the range.
func (c *cursor) before(key []byte) bool {
	order := bytes.Compare(c.it.Value().Key, key)
	return order < 0 && !c.b.Reverse || order > 0 && c.b.Reverse
}

func (c *cursor) at(key []byte) bool {
	return bytes.Equal(c.it.Value().Key, key)
}

// yield hands out the cursor's write, unless it is a delete, and goes on to the next.
func (c *cursor) yield(yield func(Entry, error) bool) bool {
	w := c.it.Value()
	c.next()
	if w.Delete || c.b.Keep != nil && !c.b.Keep(w.Key) {
		return true
	}
	e := Entry{Key: bytes.Clone(w.Key), Empty: len(w.Value) == 0}
	if !c.b.KeysOnly {
		e.Value = w.value()
	}
	return yield(e, nil)
}

// value is what a put wrote, in memory of its own.
func (c *Change) value() Value {
	return Value{Bytes: append([]byte{}, c.Value...), Timestamp: c.Timestamp}
}

func (c *Change) size() int64 {
	return int64(len(c.Key) + len(c.Value))
}
