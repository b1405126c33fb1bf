package store

import (
	"bytes"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// Scan says what a scan yields, and in which order. The zero value is all entries in the byte order of their keys.
type Scan struct {
	From, To []byte // From included, To not; nil is no bound
	Reverse  bool

	// KeysOnly leaves the values unread: the entries have Key and Empty.
	KeysOnly bool

	// Keep says which keys are wanted, before their values are read; nil wants all. It must not keep the bytes.
	Keep func(key []byte) bool
}

// narrow raises From and lowers To.
func (b *Scan) narrow(from, to []byte) {
	if bytes.Compare(from, b.From) > 0 {
		b.From = from
	}
	if b.To == nil || bytes.Compare(to, b.To) < 0 {
		b.To = to
	}
}

// wants reports whether an entry with a key is to be yielded.
func (b *Scan) wants(key []byte) bool {
	return b.contains(key) && (b.Keep == nil || b.Keep(key))
}

// empty reports that no key can lie within.
func (b *Scan) empty() bool {
	return b.To != nil && bytes.Compare(b.From, b.To) >= 0
}

func (b *Scan) seek() []byte {
	if b.Reverse {
		return seekReverse(b.To)
	}
	return seekForward(b.From)
}

// contains reports whether a key lies within.
func (b *Scan) contains(key []byte) bool {
	return bytes.Compare(key, b.From) >= 0 && (b.To == nil || bytes.Compare(key, b.To) < 0)
}

// passed reports whether a scan that has come to a plain key has left the range for good.
func (b *Scan) passed(key []byte) bool {
	if b.Reverse {
		return bytes.Compare(key, b.From) < 0
	}
	return b.To != nil && bytes.Compare(key, b.To) >= 0
}

// scan yields entries in a state. The caller is inside the gate and holds a pin. It looks for Close at each entry and
// then ends with ErrClosed, never as if complete.
func (s *KV) scan(st *applied, b Scan, yield func(Entry, error) bool) {
	if b.empty() {
		return
	}
	txn := s.db.NewTransactionAt(st.ts, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Reverse: b.Reverse, Prefix: []byte{prefixData}})
	defer it.Close()
	for it.Seek(b.seek()); it.Valid(); {
		if s.gate.closing.Load() {
			yield(Entry{}, ErrClosed)
			return
		}
		if isLongKey(it.Item().Key()) {
			if !s.scanRun(it, st, b, yield) {
				return
			}
			continue
		}
		key := it.Item().Key()[1:]
		if b.passed(key) {
			return
		}
		if b.wants(key) && !s.id.Schema.Expired(st.at.StreamTime, key) {
			e, err := itemEntry(it.Item(), b.KeysOnly)
			if !yield(e, err) || err != nil {
				return
			}
		}
		it.Next()
	}
}

// itemEntry reads an entry with a plain key.
func itemEntry(item *badger.Item, keyOnly bool) (Entry, error) {
	e := Entry{Key: bytes.Clone(item.Key()[1:])}
	if keyOnly {
		e.Empty = item.ValueSize() == valueHeaderBytes
		return e, nil
	}
	v, _, err := itemValue(item)
	if err != nil {
		return Entry{}, err
	}
	e.Value, e.Empty = v, len(v.Bytes) == 0
	return e, nil
}

// scanRun yields a run of long keys in the order of the whole keys and leaves the iterator behind it. The run is
// held in memory: keys that share their first 8 KiB and a range over them are the caller's choice.
func (s *KV) scanRun(it *badger.Iterator, st *applied, b Scan, yield func(Entry, error) bool) (goOn bool) {
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
		if !b.wants(key) || s.id.Schema.Expired(st.at.StreamTime, key) {
			continue
		}
		e := Entry{Key: key, Value: v, Empty: len(v.Bytes) == 0}
		if b.KeysOnly {
			e.Key, e.Value = bytes.Clone(key), Value{}
		}
		run = append(run, e)
	}
	slices.SortFunc(run, func(x, y Entry) int {
		if b.Reverse {
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
