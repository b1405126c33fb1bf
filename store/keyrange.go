package store

import (
	"bytes"
	"fmt"
	"math"
)

// KeyRange says which keys a scan covers, in the byte order of the user's keys. The zero value is all of them. As in Kafka
// Streams both ends are included, unless they are open; nil is no bound, an empty slice is the empty key. With a prefix
// and bounds, both must hold.
type KeyRange struct {
	From, To         []byte
	FromOpen, ToOpen bool // the end itself is left out
	Prefix           []byte
}

// String describes the range as an interval, and the prefix when there is one.
func (r KeyRange) String() string {
	from, to := "[-", "-]"
	if r.From != nil {
		from = fmt.Sprintf("[%q", r.From)
	}
	if r.To != nil {
		to = fmt.Sprintf("%q]", r.To)
	}
	if r.FromOpen {
		from = "(" + from[1:]
	}
	if r.ToOpen {
		to = to[:len(to)-1] + ")"
	}
	if len(r.Prefix) == 0 {
		return from + ", " + to
	}
	return fmt.Sprintf("%s, %s with prefix %q", from, to, r.Prefix)
}

// OneKey is the range of a single key.
func OneKey(key []byte) KeyRange {
	if key == nil {
		key = []byte{}
	}
	return KeyRange{From: key, To: key}
}

// Times says which times a scan covers, in milliseconds, both ends included.
type Times struct {
	From, To int64
}

// AllTimes is every time.
var AllTimes = Times{math.MinInt64, math.MaxInt64}

func (t Times) contains(ms int64) bool {
	return t.From <= ms && ms <= t.To
}

// ScanOptions say how a scan goes. The zero value is forward, from the beginning, with values.
type ScanOptions struct {
	Reverse  bool
	KeysOnly bool // values are not read; the entries have none

	// After is the Cursor of an entry that another scan of the same range and direction gave, on this replica or another:
	// the scan begins behind it.
	After []byte
}

// bounds returns the internal keys that a range covers: from inclusive, to exclusive.
func (s Schema) bounds(r KeyRange) (from, to []byte) {
	raise := func(b []byte) {
		if bytes.Compare(b, from) > 0 {
			from = b
		}
	}
	lower := func(b []byte) {
		if b != nil && (to == nil || bytes.Compare(b, to) < 0) {
			to = b
		}
	}
	if r.From != nil {
		raise(s.edge(r.From, r.FromOpen))
	}
	if r.To != nil {
		lower(s.edge(r.To, !r.ToOpen))
	}
	if len(r.Prefix) > 0 {
		prefix := r.Prefix
		if s.timed() {
			prefix = appendEscaped(nil, prefix)
		}
		raise(prefix)
		lower(prefixEnd(prefix))
	}
	return from, to
}

// edge is the lowest internal key of a key, or the lowest behind all of them.
func (s Schema) edge(key []byte, behind bool) []byte {
	switch {
	case !s.timed() && behind:
		return append(bytes.Clone(key), 0)
	case !s.timed():
		return key
	case behind:
		return append(appendEscaped(nil, key), 0, behindKey)
	}
	return keyStart(nil, key)
}

// scan is the scan of a range with options.
func (s Schema) scan(r KeyRange, o ScanOptions) Scan {
	from, to := s.bounds(r)
	if o.After != nil {
		if o.Reverse && (to == nil || bytes.Compare(o.After, to) < 0) {
			to = o.After
		}
		if !o.Reverse && bytes.Compare(o.After, from) >= 0 {
			from = append(bytes.Clone(o.After), 0)
		}
	}
	return Scan{From: from, To: to, Reverse: o.Reverse, KeysOnly: o.KeysOnly}
}
