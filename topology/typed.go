package topology

import (
	"fmt"
	"iter"
)

// TypedStore is a store seen through the codecs of its keys and values. It is a small value: make one in Process from the
// context's store.
type TypedStore[K, V any] struct {
	store  KeyValueStore
	keys   Codec[K]
	values Codec[V]
}

// Typed returns a store seen through codecs, which should be those that the store's StoreSpec names.
func Typed[K, V any](s KeyValueStore, keys Codec[K], values Codec[V]) TypedStore[K, V] {
	return TypedStore[K, V]{s, keys, values}
}

// TypedEntry is one key of a [TypedStore].
type TypedEntry[K, V any] struct {
	Key       K
	Value     V
	Timestamp int64 // milliseconds since 1970
}

// Get returns the value of a key; an absent key is found=false and no error.
func (s TypedStore[K, V]) Get(key K) (value V, found bool, err error) {
	k, err := s.keys.Encode(key)
	if err != nil {
		return value, false, fmt.Errorf("key: %w", err)
	}
	data, _, found, err := s.store.Get(k)
	if err != nil || !found {
		return value, false, err
	}
	if value, err = s.values.Decode(data); err != nil {
		return value, false, fmt.Errorf("value of %q: %w", k, err)
	}
	return value, true, nil
}

// Put sets the value of a key. The timestamp is in milliseconds, usually the record's.
func (s TypedStore[K, V]) Put(key K, value V, timestamp int64) error {
	k, err := s.keys.Encode(key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	v, err := s.values.Encode(value)
	if err != nil {
		return fmt.Errorf("value of %q: %w", k, err)
	}
	return s.store.Put(k, v, timestamp)
}

// Delete removes a key, if it is there.
func (s TypedStore[K, V]) Delete(key K, timestamp int64) error {
	k, err := s.keys.Encode(key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	return s.store.Delete(k, timestamp)
}

// All yields every key in ascending order of its bytes. It ends after the first error.
func (s TypedStore[K, V]) All() iter.Seq2[TypedEntry[K, V], error] {
	return func(yield func(TypedEntry[K, V], error) bool) {
		for e, err := range s.store.Range(nil, nil, false) {
			typed := TypedEntry[K, V]{Timestamp: e.Timestamp}
			if err == nil {
				typed.Key, err = s.keys.Decode(e.Key)
			}
			if err == nil {
				typed.Value, err = s.values.Decode(e.Value)
			}
			if !yield(typed, err) || err != nil {
				return
			}
		}
	}
}
