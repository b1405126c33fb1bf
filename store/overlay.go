package store

import (
	"bytes"
	"iter"

	"github.com/tidwall/btree"
)

// Overlay holds the writes of a transaction that is not committed over a base that it reads through to. Its own
// writes come first, in ranges too. Nothing of it is ever in the database (I1): at a commit its Changes are applied,
// at an abort it is reset. One goroutine at a time may use it, except that Range may be left and written under: a range
// goes on with the overlay as it was when it began.
//
// It copies what it is given, and what it returns belongs to the caller, except for Changes.
type Overlay struct {
	base   Reader
	writes btree.Map[string, *Change] // by key; a *Change here is never written again, copies of the tree share them
	bytes  int64
}

// NewOverlay returns an empty overlay over a base. The base of a task's overlay always shows what was applied last
// (KV.Reader).
func NewOverlay(base Reader) *Overlay {
	return &Overlay{base: base}
}

// Get implements Reader.
func (o *Overlay) Get(key []byte) (Value, bool, error) {
	w, ok := o.writes.Get(string(key))
	if !ok {
		return o.base.Get(key)
	}
	if w.Delete {
		return Value{}, false, nil
	}
	return w.value(), true, nil
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
	o.bytes += c.size()
	if old, replaced := o.writes.Set(string(c.Key), &c); replaced {
		o.bytes -= old.size()
	}
}

// Changes returns the last write of each key, in the byte order of the keys. The changes share the overlay's memory
// and must not be written to; they stay valid after Reset.
func (o *Overlay) Changes() []Change {
	changes := make([]Change, 0, o.writes.Len())
	o.writes.Scan(func(_ string, w *Change) bool {
		changes = append(changes, *w)
		return true
	})
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
}

// Range implements Reader: a merge of the overlay with the base, in which the overlay's entry for a key stands and
// its deletes hide.
func (o *Overlay) Range(from, to []byte, reverse bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		b := bounds{from, to, reverse}
		if b.empty() {
			return
		}
		own := newCursor(o.writes.Copy(), b)
		for e, err := range o.base.Range(from, to, reverse) {
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
}

// cursor walks the writes within bounds.
type cursor struct {
	it btree.MapIter[string, *Change]
	b  bounds
	ok bool // it stands at a write within bounds
}

func newCursor(writes *btree.Map[string, *Change], b bounds) *cursor {
	c := &cursor{it: writes.Iter(), b: b}
	switch {
	case !b.reverse:
		c.ok = c.it.Seek(string(b.from))
	case b.to == nil:
		c.ok = c.it.Last()
	case c.it.Seek(string(b.to)): // the first that is too high
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
	if c.b.reverse {
		c.ok = c.it.Prev()
	} else {
		c.ok = c.it.Next()
	}
	c.check()
}

// before reports whether the cursor's key comes before another in the direction of the range.
func (c *cursor) before(key []byte) bool {
	order := bytes.Compare(c.it.Value().Key, key)
	return order < 0 && !c.b.reverse || order > 0 && c.b.reverse
}

func (c *cursor) at(key []byte) bool {
	return bytes.Equal(c.it.Value().Key, key)
}

// yield hands out the cursor's write, unless it is a delete, and goes on to the next.
func (c *cursor) yield(yield func(Entry, error) bool) bool {
	w := c.it.Value()
	c.next()
	return w.Delete || yield(Entry{Key: bytes.Clone(w.Key), Value: w.value()}, nil)
}

// value is what a put wrote, in memory of its own.
func (c *Change) value() Value {
	return Value{Bytes: append([]byte{}, c.Value...), Timestamp: c.Timestamp}
}

func (c *Change) size() int64 {
	return int64(len(c.Key) + len(c.Value))
}
