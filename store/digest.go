package store

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
)

// fingerprintBytes are taken of a hash where many are kept at a time.
const fingerprintBytes = 16

// A Fingerprint is an entry's value and timestamp in a few bytes, for comparing.
type Fingerprint [fingerprintBytes]byte

// FingerprintOf sums a value up.
func FingerprintOf(v Value) Fingerprint {
	h := sha256.New()
	var ts [8]byte
	binary.BigEndian.PutUint64(ts[:], uint64(v.Timestamp))
	_, _ = h.Write(ts[:])
	_, _ = h.Write(v.Bytes)
	return Fingerprint(h.Sum(nil)[:fingerprintBytes])
}

// A Digest sums up entries in any order. The zero value is that of none.
type Digest struct {
	sum     [4]uint64
	entries int64
}

// Add takes an entry in. Keys are internal keys.
func (d *Digest) Add(key []byte, v Value) {
	h := sha256.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(key)))
	_, _ = h.Write(n[:])
	_, _ = h.Write(key)
	binary.BigEndian.PutUint64(n[:], uint64(v.Timestamp))
	_, _ = h.Write(n[:])
	_, _ = h.Write(v.Bytes)
	one := h.Sum(nil)
	for i := range d.sum { // a sum does not depend on the order, and an entry twice shows
		d.sum[i] += binary.BigEndian.Uint64(one[8*i:])
	}
	d.entries++
}

// Entries is how many were added.
func (d *Digest) Entries() int64 { return d.entries }

// Bytes is the digest, 32 bytes.
func (d *Digest) Bytes() []byte {
	b := make([]byte, 0, 8*len(d.sum))
	for _, s := range d.sum {
		b = binary.BigEndian.AppendUint64(b, s)
	}
	return b
}

// KeyGroup is the part of an internal key that decides, with others of the same group alone, whether its entry is visible: of a
// version its user's key, since the next version ends it; of everything else the whole.
func (s Schema) KeyGroup(internal []byte) []byte {
	if s.Kind != KindVersioned || len(internal) < timeBytes {
		return internal
	}
	return internal[:len(internal)-timeBytes]
}

// Visible are the entries that anybody can see at a stream time, which is at least that of r, in the order of their internal
// keys: no expired windows or sessions, and of a versioned store no versions that ended before its history. What replicas
// have not purged yet is not among them, so two replicas of one state agree.
func Visible(r Reader, streamTime int64) iter.Seq2[Entry, error] {
	return r.Schema().visible(r.Scan(Scan{}), streamTime)
}

func (s Schema) visible(entries iter.Seq2[Entry, error], streamTime int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var held *Entry // awaits its successor
		pass := func(next []byte) bool {
			if held == nil || s.hiddenBy(held, next, streamTime) {
				return true
			}
			return yield(*held, nil)
		}
		for e, err := range entries {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !pass(e.Key) {
				return
			}
			held = &e
		}
		pass(nil)
	}
}

// hiddenBy says whether an entry cannot be seen at a stream time, given the internal key that follows it.
func (s Schema) hiddenBy(e *Entry, next []byte, streamTime int64) bool {
	if !s.timed() || streamTime == NoStreamTime {
		return false
	}
	return s.endOf(e.Key, e.Empty, next) <= s.Horizon(streamTime)
}

// An Expectation is what a store must hold after the records of a changelog, for the groups of keys that it is asked to keep. It
// is told of all records, for they move the stream time.
type Expectation struct {
	schema     Schema
	keep       func(group []byte) bool
	streamTime int64
	entries    map[string]expected
	bytes      int64
}

type expected struct {
	value Fingerprint
	empty bool
}

// expectedBytes is about what an entry costs beside its key.
const expectedBytes = 96

// NewExpectation expects nothing yet.
func NewExpectation(schema Schema, keep func(group []byte) bool) *Expectation {
	return &Expectation{schema: schema, keep: keep, streamTime: NoStreamTime, entries: make(map[string]expected)}
}

// Change takes the next change of the changelog in, in its order.
func (x *Expectation) Change(c *Change) {
	var kept bool
	if x.streamTime, kept = x.schema.Admit(x.streamTime, c.Key); !kept && x.schema.Kind == KindVersioned || !x.keep(x.schema.KeyGroup(c.Key)) {
		return
	}
	_, had := x.entries[string(c.Key)]
	switch {
	case c.Delete:
		if had {
			delete(x.entries, string(c.Key))
			x.bytes -= int64(len(c.Key)) + expectedBytes
		}
	default:
		if !had {
			x.bytes += int64(len(c.Key)) + expectedBytes
		}
		x.entries[string(c.Key)] = expected{FingerprintOf(Value{Bytes: c.Value, Timestamp: c.Timestamp}), len(c.Value) == 0}
	}
}

// Bytes is about how much memory it takes.
func (x *Expectation) Bytes() int64 { return x.bytes }

// Difference of an entry.
type Difference int

// The differences.
const (
	DifferenceNone          Difference = iota
	DifferenceOnlyStore                // the changelog does not have it
	DifferenceOnlyChangelog            // the store does not have it
	DifferenceValue                    // another value or timestamp
)

// Compare tells each entry of the kept groups that r shows or must show at a stream time, with what is different about it. It
// takes what it has expected apart: call it once.
func (x *Expectation) Compare(r Reader, streamTime int64, tell func(key []byte, d Difference) error) error {
	x.dropHidden(streamTime)
	for e, err := range Visible(r, streamTime) {
		if err != nil {
			return err
		}
		if !x.keep(x.schema.KeyGroup(e.Key)) {
			continue
		}
		want, ok := x.entries[string(e.Key)]
		delete(x.entries, string(e.Key))
		d := DifferenceNone
		switch {
		case !ok:
			d = DifferenceOnlyStore
		case want.value != FingerprintOf(e.Value):
			d = DifferenceValue
		}
		if err := tell(e.Key, d); err != nil {
			return err
		}
	}
	for key := range x.entries {
		if err := tell([]byte(key), DifferenceOnlyChangelog); err != nil {
			return err
		}
	}
	return nil
}

// dropHidden forgets what cannot be seen at a stream time.
func (x *Expectation) dropHidden(streamTime int64) {
	if !x.schema.timed() {
		return
	}
	keys := slices.Sorted(maps.Keys(x.entries))
	for i, key := range keys {
		var next []byte
		if i+1 < len(keys) {
			next = []byte(keys[i+1])
		}
		if x.schema.hiddenBy(&Entry{Key: []byte(key), Empty: x.entries[key].empty}, next, streamTime) {
			delete(x.entries, key)
		}
	}
}
