package store

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
)

const (
	// exactEntries is how many entries Stats counts one by one before it estimates.
	exactEntries = 10_000

	// reclaimRatio is the share of a value log file that must be garbage for ReclaimSpace to rewrite it.
	reclaimRatio = 0.5
)

// Stats is about how large a store is.
type Stats struct {
	// Entries is the number of keys, windows, sessions or versions: exact up to 10,000, above that an estimate that may
	// count what was overwritten or deleted and is not yet compacted away. What is expired and not yet removed counts.
	Entries int64

	// TableBytes is the size of the sorted tables. Logs, of a few memtables' size, and values above about 1 MiB, which
	// are kept apart, come on top.
	TableBytes int64
}

// Stats estimates the store's size. It takes up to a few milliseconds.
func (s *KV) Stats() (Stats, error) {
	if !s.enter() {
		return Stats{}, ErrClosed
	}
	defer s.leave()
	var stats Stats
	var versions int64
	for _, table := range s.db.Tables() {
		versions += int64(table.KeyCount)
		stats.TableBytes += int64(table.OnDiskSize)
	}
	counted, all := s.countEntries()
	stats.Entries = counted
	if !all {
		stats.Entries = max(counted, versions)
	}
	return stats, nil
}

// countEntries counts keys up to exactEntries and reports whether these are all.
func (s *KV) countEntries() (n int64, all bool) {
	st := s.pin()
	defer st.pins.Add(-1)
	txn := s.db.NewTransactionAt(st.ts, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefixData}})
	defer it.Close()
	for it.Rewind(); it.Valid() && n < exactEntries; it.Next() {
		n++
	}
	return n, !it.Valid()
}

// ReclaimSpace rewrites one value log file that is mostly garbage and reports whether there was one; only values above
// about 1 MiB are kept there, everything else is compacted as it is written. It may run beside reads and Apply; call it
// now and then, one call at a time, until it reports false.
func (s *KV) ReclaimSpace() (bool, error) {
	if !s.enter() {
		return false, ErrClosed
	}
	defer s.leave()
	if s.opt.InMemory {
		return false, nil
	}
	err := s.db.RunValueLogGC(reclaimRatio)
	if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
		return false, nil
	}
	return err == nil, err
}
