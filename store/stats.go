package store

import (
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// exactEntries is how many entries Stats counts one by one before it estimates.
const exactEntries = 10_000

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

// Sizes is what a store's files take, as far as that is known without a look at entries.
type Sizes struct {
	// Tables is the number of sorted tables and TableBytes their size.
	Tables, TableBytes int64
	// ValueBytes is the size of the files of values above about 1 MiB, but for the newest.
	ValueBytes int64
}

// Sizes tells what the store's files take. It takes some microseconds.
func (s *KV) Sizes() (Sizes, error) {
	if !s.enter() {
		return Sizes{}, ErrClosed
	}
	defer s.leave()
	var sizes Sizes
	for _, level := range s.db.Levels() {
		sizes.Tables += int64(level.NumTables)
		sizes.TableBytes += level.Size
	}
	if s.opt.InMemory {
		return sizes, nil
	}
	var err error
	sizes.ValueBytes, err = valueFileBytes(filepath.Join(s.dir, databaseName))
	return sizes, err
}
