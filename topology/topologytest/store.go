package topologytest

import (
	"bytes"
	"iter"
	"maps"
	"slices"

	"github.com/iqgate/iqgate/topology"
)

// Store is a key-value store in memory, one partition of it. It is not safe for concurrent use.
type Store struct {
	entries map[string]topology.Entry
	changelog
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{entries: map[string]topology.Entry{}} }

// Get implements topology.KeyValueStore.
func (s *Store) Get(key []byte) (value []byte, timestamp int64, found bool, err error) {
	e, found := s.entries[string(key)]
	return e.Value, e.Timestamp, found, nil
}

// Put implements topology.KeyValueStore.
func (s *Store) Put(key, value []byte, timestamp int64) error {
	if value == nil {
		return s.Delete(key, timestamp)
	}
	s.entries[string(key)] = topology.Entry{Key: key, Value: value, Timestamp: timestamp}
	s.log(key, value, timestamp)
	return nil
}

// Delete implements topology.KeyValueStore.
func (s *Store) Delete(key []byte, timestamp int64) error {
	delete(s.entries, string(key))
	s.log(key, nil, timestamp)
	return nil
}

// Range implements topology.KeyValueStore. It yields what is there when the loop begins.
func (s *Store) Range(from, to []byte, reverse bool) iter.Seq2[topology.Entry, error] {
	return func(yield func(topology.Entry, error) bool) {
		keys := slices.Sorted(maps.Keys(s.entries))
		if reverse {
			slices.Reverse(keys)
		}
		for _, k := range keys {
			e, ok := s.entries[k]
			if !ok || from != nil && bytes.Compare(e.Key, from) < 0 || to != nil && bytes.Compare(e.Key, to) > 0 {
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Len is the number of keys.
func (s *Store) Len() int { return len(s.entries) }
