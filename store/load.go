package store

import (
	"errors"
	"math"

	"github.com/dgraph-io/badger/v4"
)

// create writes the entries that a new store has.
func (s *KV) create() error {
	identity, err := encodeID(s.id)
	if err != nil {
		return err
	}
	s.cur.Store(&applied{at: newCheckpoint})
	s.w = writer{stored: meta{at: newCheckpoint}, witnessDue: true}
	return s.commitMeta(0, func(b *batch) error { return b.set(identityKey, identity) })
}

// load takes identity and position from the database and undoes what lies above the position.
func (s *KV) load() error {
	txn := s.db.NewTransactionAt(math.MaxUint64, false) // the newest position entry was the last write of its Apply
	defer txn.Discard()
	b, _, err := getMeta(txn, identityKey)
	if err != nil {
		return err
	}
	have, err := decodeID(b)
	if err != nil {
		return err
	}
	want := s.id
	if s.id, err = want.check(have); err != nil {
		return err
	}
	b, version, err := getMeta(txn, positionKey)
	if err != nil {
		return err
	}
	m, err := decodeMeta(b)
	if err != nil {
		return corruptf("%w", err)
	}
	if m.at.Position < -1 || m.ts != version || m.at.Position >= 0 && m.ts <= uint64(m.at.Position) {
		return corruptf("position %d at timestamp %d, entry written at %d", m.at.Position, m.ts, version)
	}
	if err := checkWitnesses(s.db, m.witness, m.ts); err != nil {
		return err
	}
	s.w = writer{stored: m, torn: s.db.MaxVersion() > m.ts, witnessDue: true}
	s.publish(&applied{ts: m.ts, at: m.at})
	if err := s.undo(); err != nil {
		return err
	}
	if s.id.TopicID == have.TopicID {
		return nil
	}
	identity, err := encodeID(s.id)
	if err != nil {
		return err
	}
	return s.commitMeta(0, func(b *batch) error { return b.set(identityKey, identity) })
}

// getMeta returns one of the store's own entries and the timestamp at which it was written.
func getMeta(txn *badger.Txn, key []byte) (value []byte, version uint64, err error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, 0, corruptf("the database opened without its entry %q", key)
	}
	if err != nil {
		return nil, 0, corruptf("entry %q: %w", key, err)
	}
	value, err = item.ValueCopy(nil)
	if err != nil {
		return nil, 0, corruptf("entry %q: %w", key, err)
	}
	return value, item.Version(), nil
}
