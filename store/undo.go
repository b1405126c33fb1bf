package store

import (
	"bytes"
	"errors"

	"github.com/dgraph-io/badger/v4"
)

// undo hides for good what an unfinished Apply left above the position: at a timestamp above all of it, each key
// that it touched gets the value that reads see now. From then on it does not matter which batches replay the
// changelog, or whether the changelog is still the same. A crash in undo leaves more entries above the position,
// which the next undo covers in the same way. The work is bounded by the size of that Apply.
func (s *KV) undo() error {
	newest := s.db.MaxVersion()
	if !s.w.torn || newest <= s.w.stored.ts {
		s.w.torn = false
		return nil
	}
	if err := s.commitMeta(newest, s.restoreAbove(newest)); err != nil {
		return err
	}
	s.w.torn, s.w.witnessDue = false, true
	return nil
}

// restoreAbove fills a batch with the visible value of each key that has entries above the position.
func (s *KV) restoreAbove(newest uint64) func(*batch) error {
	return func(b *batch) error {
		touched := s.db.NewTransactionAt(newest, false)
		defer touched.Discard()
		visible := s.db.NewTransactionAt(s.w.stored.ts, false)
		defer visible.Discard()
		it := touched.NewIterator(badger.IteratorOptions{AllVersions: true, SinceTs: s.w.stored.ts})
		defer it.Close()
		var last []byte
		for it.Rewind(); it.Valid(); it.Next() {
			// Other versions of the same key, and the position of an Apply that failed at its very end: until the new
			// position is written, a restart takes that Apply as done, which it is.
			if key := it.Item().Key(); bytes.Equal(key, last) || bytes.Equal(key, positionKey) {
				continue
			}
			last = it.Item().KeyCopy(nil)
			if err := b.restore(visible, last); err != nil {
				return err
			}
		}
		return nil
	}
}

// restore adds the value that a key has in txn, or its absence. It keeps key.
func (b *batch) restore(txn *badger.Txn, key []byte) error {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return b.delete(key)
	}
	if err != nil {
		return err
	}
	value, err := item.ValueCopy(nil)
	if err != nil {
		return err
	}
	return b.set(key, value)
}
