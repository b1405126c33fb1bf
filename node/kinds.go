package node

import (
	"iter"

	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/topology"
)

// WindowStore implements topology.WindowedOutput.
func (o *taskOutput) WindowStore(name string) topology.WindowStore {
	if s := o.t.store(name); s != nil {
		if w, err := store.NewWindowStore(s.overlay); err == nil {
			return windowStore{w, s}
		}
	}
	return nil
}

// SessionStore implements topology.WindowedOutput.
func (o *taskOutput) SessionStore(name string) topology.SessionStore {
	if s := o.t.store(name); s != nil {
		if w, err := store.NewSessionStore(s.overlay); err == nil {
			return sessionStore{w, s}
		}
	}
	return nil
}

// VersionedStore implements topology.WindowedOutput.
func (o *taskOutput) VersionedStore(name string) topology.VersionedStore {
	if s := o.t.store(name); s != nil {
		if w, err := store.NewVersionedStore(s.overlay); err == nil {
			return versionedStore{w, s}
		}
	}
	return nil
}

// store is the task's store of that name, nil if it has none.
func (t *activeTask) store(name string) *taskStore {
	for _, s := range t.stores {
		if s.info.spec.Name == name {
			return s
		}
	}
	return nil
}

// windowStore shows an overlay as processors want a window store.
type windowStore struct {
	w store.WindowStore
	s *taskStore
}

// Put implements topology.WindowStore.
func (s windowStore) Put(key, value []byte, start, timestamp int64) error {
	s.s.check.uses(key)
	if value == nil {
		s.w.Delete(key, start, timestamp)
	} else {
		s.w.Put(key, start, value, timestamp)
	}
	return nil
}

// Fetch implements topology.WindowStore.
func (s windowStore) Fetch(key []byte, start int64) ([]byte, int64, bool, error) {
	s.s.check.uses(key)
	v, found, err := s.w.Get(key, start)
	return v.Bytes, v.Timestamp, found, err
}

// FetchRange implements topology.WindowStore.
func (s windowStore) FetchRange(key []byte, from, to int64) iter.Seq2[topology.WindowEntry, error] {
	s.s.check.uses(key)
	return func(yield func(topology.WindowEntry, error) bool) {
		for e, err := range s.w.Fetch(key, store.Times{From: from, To: to}, store.ScanOptions{}) {
			if !yield(topology.WindowEntry{Key: e.Key, Start: e.Start, Value: e.Value.Bytes, Timestamp: e.Value.Timestamp}, err) {
				return
			}
		}
	}
}

// StreamTime implements topology.WindowStore.
func (s windowStore) StreamTime() int64 { return s.s.overlay.StreamTime() }

// sessionStore shows an overlay as processors want a session store.
type sessionStore struct {
	w store.SessionStore
	s *taskStore
}

// Put implements topology.SessionStore.
func (s sessionStore) Put(key, value []byte, start, end, timestamp int64) error {
	if value == nil {
		return s.Remove(key, start, end, timestamp)
	}
	s.s.check.uses(key)
	s.w.Put(key, start, end, value, timestamp)
	return nil
}

// Remove implements topology.SessionStore.
func (s sessionStore) Remove(key []byte, start, end, timestamp int64) error {
	s.s.check.uses(key)
	s.w.Delete(key, start, end, timestamp)
	return nil
}

// FindSessions implements topology.SessionStore.
func (s sessionStore) FindSessions(key []byte, earliestEnd, latestStart int64) iter.Seq2[topology.SessionEntry, error] {
	s.s.check.uses(key)
	return func(yield func(topology.SessionEntry, error) bool) {
		for e, err := range s.w.FindSessions(key, earliestEnd, latestStart, store.ScanOptions{}) {
			if !yield(topology.SessionEntry{Key: e.Key, Start: e.Start, End: e.End, Value: e.Value.Bytes}, err) {
				return
			}
		}
	}
}

// StreamTime implements topology.SessionStore.
func (s sessionStore) StreamTime() int64 { return s.s.overlay.StreamTime() }

// versionedStore shows an overlay as processors want a versioned store.
type versionedStore struct {
	w store.VersionedStore
	s *taskStore
}

// Put implements topology.VersionedStore.
func (s versionedStore) Put(key, value []byte, timestamp int64) (bool, error) {
	s.s.check.uses(key)
	return s.w.Put(key, value, timestamp), nil
}

// Get implements topology.VersionedStore.
func (s versionedStore) Get(key []byte) ([]byte, int64, bool, error) {
	s.s.check.uses(key)
	v, found, err := s.w.Get(key)
	return v.Value.Bytes, v.ValidFrom, found, err
}

// GetAsOf implements topology.VersionedStore.
func (s versionedStore) GetAsOf(key []byte, asOf int64) ([]byte, int64, bool, error) {
	s.s.check.uses(key)
	v, found, err := s.w.GetAsOf(key, asOf)
	return v.Value.Bytes, v.ValidFrom, found, err
}

// StreamTime implements topology.VersionedStore.
func (s versionedStore) StreamTime() int64 { return s.s.overlay.StreamTime() }
