package topology

import (
	"fmt"
	"iter"
)

// taskWindowStore is the node's window store; its failures reach the task even if the processor drops them.
type taskWindowStore struct {
	store *taskStore
	inner WindowStore
}

func (s *taskWindowStore) Put(key, value []byte, start, timestamp int64) error {
	if start < 0 {
		return s.store.check("put", fmt.Errorf("window start %d is negative", start))
	}
	return s.store.check("put", s.inner.Put(key, value, start, timestamp))
}

func (s *taskWindowStore) Fetch(key []byte, start int64) ([]byte, int64, bool, error) {
	value, ts, found, err := s.inner.Fetch(key, start)
	return value, ts, found, s.store.check("fetch", err)
}

func (s *taskWindowStore) FetchRange(key []byte, from, to int64) iter.Seq2[WindowEntry, error] {
	return checked(s.store, "fetch range", s.inner.FetchRange(key, from, to))
}

func (s *taskWindowStore) StreamTime() int64 { return s.inner.StreamTime() }

// taskSessionStore is the node's session store.
type taskSessionStore struct {
	store *taskStore
	inner SessionStore
}

func (s *taskSessionStore) Put(key, value []byte, start, end, timestamp int64) error {
	if value == nil {
		return s.Remove(key, start, end, timestamp)
	}
	if err := checkSession(start, end); err != nil {
		return s.store.check("put", err)
	}
	return s.store.check("put", s.inner.Put(key, value, start, end, timestamp))
}

func (s *taskSessionStore) Remove(key []byte, start, end, timestamp int64) error {
	if err := checkSession(start, end); err != nil {
		return s.store.check("remove", err)
	}
	return s.store.check("remove", s.inner.Remove(key, start, end, timestamp))
}

func checkSession(start, end int64) error {
	switch {
	case start < 0:
		return fmt.Errorf("session start %d is negative", start)
	case end < start:
		return fmt.Errorf("session end %d is before its start, %d", end, start)
	}
	return nil
}

func (s *taskSessionStore) FindSessions(key []byte, earliestEnd, latestStart int64) iter.Seq2[SessionEntry, error] {
	return checked(s.store, "find sessions", s.inner.FindSessions(key, earliestEnd, latestStart))
}

func (s *taskSessionStore) StreamTime() int64 { return s.inner.StreamTime() }

// taskVersionedStore is the node's versioned store.
type taskVersionedStore struct {
	store *taskStore
	inner VersionedStore
}

func (s *taskVersionedStore) Put(key, value []byte, timestamp int64) (bool, error) {
	if timestamp < 0 {
		return false, s.store.check("put", fmt.Errorf("timestamp %d is negative", timestamp))
	}
	accepted, err := s.inner.Put(key, value, timestamp)
	return accepted, s.store.check("put", err)
}

func (s *taskVersionedStore) Get(key []byte) ([]byte, int64, bool, error) {
	value, ts, found, err := s.inner.Get(key)
	return value, ts, found, s.store.check("get", err)
}

func (s *taskVersionedStore) GetAsOf(key []byte, asOf int64) ([]byte, int64, bool, error) {
	value, ts, found, err := s.inner.GetAsOf(key, asOf)
	return value, ts, found, s.store.check("get as of", err)
}

func (s *taskVersionedStore) StreamTime() int64 { return s.inner.StreamTime() }

// checked passes entries on until the first error, which the task learns of.
func checked[E any](s *taskStore, op string, entries iter.Seq2[E, error]) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for e, err := range entries {
			if err = s.check(op, err); !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// What a processor gets for stores of the other kinds that it may not use.
type (
	brokenWindowStore    struct{ brokenStore }
	brokenSessionStore   struct{ brokenStore }
	brokenVersionedStore struct{ brokenStore }
)

func (s brokenWindowStore) Put(_, _ []byte, _, _ int64) error { return s.fail() }
func (s brokenWindowStore) Fetch([]byte, int64) ([]byte, int64, bool, error) {
	return nil, 0, false, s.fail()
}
func (s brokenWindowStore) StreamTime() int64 { return -1 }

func (s brokenWindowStore) FetchRange([]byte, int64, int64) iter.Seq2[WindowEntry, error] {
	return func(yield func(WindowEntry, error) bool) { yield(WindowEntry{}, s.fail()) }
}

func (s brokenSessionStore) Put(_, _ []byte, _, _, _ int64) error { return s.fail() }
func (s brokenSessionStore) Remove(_ []byte, _, _, _ int64) error { return s.fail() }
func (s brokenSessionStore) StreamTime() int64                    { return -1 }

func (s brokenSessionStore) FindSessions([]byte, int64, int64) iter.Seq2[SessionEntry, error] {
	return func(yield func(SessionEntry, error) bool) { yield(SessionEntry{}, s.fail()) }
}

func (s brokenVersionedStore) Put(_, _ []byte, _ int64) (bool, error) { return false, s.fail() }
func (s brokenVersionedStore) Get([]byte) ([]byte, int64, bool, error) {
	return nil, 0, false, s.fail()
}
func (s brokenVersionedStore) StreamTime() int64 { return -1 }

func (s brokenVersionedStore) GetAsOf([]byte, int64) ([]byte, int64, bool, error) {
	return nil, 0, false, s.fail()
}
