package store

import (
	"bytes"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// bounds are what a range covers: from inclusive, to exclusive, nil unbounded.
type bounds struct {
	from, to []byte
	reverse  bool
}

// empty reports that no key can lie within.
func (b bounds) empty() bool {
	return b.to != nil && bytes.Compare(b.from, b.to) >= 0
}

func (b bounds) seek() []byte {
	if b.reverse {
		return seekReverse(b.to)
	}
	return seekForward(b.from)
}

// contains reports whether a key lies within.
func (b bounds) contains(key []byte) bool {
	return bytes.Compare(key, b.from) >= 0 && (b.to == nil || bytes.Compare(key, b.to) < 0)
}

// passed reports whether a scan that has come to a plain key has left the range for good.
func (b bounds) passed(key []byte) bool {
	if b.reverse {
		return bytes.Compare(key, b.from) < 0
	}
	return b.to != nil && bytes.Compare(key, b.to) >= 0
}

// scan yields the entries within bounds at a timestamp. The caller is inside the gate and holds a pin. It looks for
// Close at each entry and then ends with ErrClosed, never as if complete.
func (s *KV) scan(ts uint64, b bounds, yield func(Entry, error) bool) {
	if b.empty() {
		return
	}
	txn := s.db.NewTransactionAt(ts, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Reverse: b.reverse, Prefix: []byte{prefixData}})
	defer it.Close()
	for it.Seek(b.seek()); it.Valid(); {
		if s.gate.closing.Load() {
			yield(Entry{}, ErrClosed)
			return
		}
		if isLongKey(it.Item().Key()) {
			if !s.scanRun(it, b, yield) {
				return
			}
			continue
		}
		key := it.Item().Key()[1:]
		if b.passed(key) {
			return
		}
		if b.contains(key) {
			v, _, err := itemValue(it.Item())
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(Entry{Key: bytes.Clone(key), Value: v}, nil) {
				return
			}
		}
		it.Next()
	}
}

// scanRun yields a run of long keys in the order of the whole keys and leaves the iterator behind it. The run is
// held in memory: keys that share their first 8 KiB and a range over them are the caller's choice.
func (s *KV) scanRun(it *badger.Iterator, b bounds, yield func(Entry, error) bool) (goOn bool) {
	prefix := bytes.Clone(it.Item().Key()[:1+maxPlainKey])
	var run []Entry
	for ; it.Valid() && isLongKey(it.Item().Key()) && bytes.HasPrefix(it.Item().Key(), prefix); it.Next() {
		v, key, err := itemValue(it.Item())
		if err == nil && key == nil {
			err = corruptf("a long key's value does not hold the key")
		}
		if err != nil {
			yield(Entry{}, err)
			return false
		}
		if b.contains(key) {
			run = append(run, Entry{Key: key, Value: v})
		}
	}
	slices.SortFunc(run, func(x, y Entry) int {
		if b.reverse {
			x, y = y, x
		}
		return bytes.Compare(x.Key, y.Key)
	})
	for _, e := range run {
		if s.gate.closing.Load() {
			yield(Entry{}, ErrClosed)
			return false
		}
		if !yield(e, nil) {
			return false
		}
	}
	return !b.passed(prefix[1:]) // what follows lies on the far side of the prefix, or is the prefix itself
}
