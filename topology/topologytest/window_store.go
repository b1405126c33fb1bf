package topologytest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"github.com/iqgate/iqgate/topology"
)

// byTime is what window and session stores have in common: entries of a key in the order of their times, which expire by
// stream time.
type byTime[E any] struct {
	retention  int64 // milliseconds
	streamTime int64 // -1 before the first put
	entries    map[string][]E
	changelog
}

// put sets or removes an entry that expires by time. It does nothing, and says so, when that is over.
func (s *byTime[E]) put(key []byte, e E, time int64, remove bool, compare func(a, b E) int) bool {
	s.streamTime = max(s.streamTime, time)
	if s.expired(time) {
		return false
	}
	of := s.entries[string(key)]
	i, found := slices.BinarySearchFunc(of, e, compare)
	switch {
	case remove && found:
		of = slices.Delete(slices.Clone(of), i, i+1)
	case remove:
	case found:
		of = slices.Clone(of)
		of[i] = e
	default:
		of = slices.Insert(slices.Clone(of), i, e)
	}
	s.entries[string(key)] = of
	return true
}

func (s *byTime[E]) expired(time int64) bool { return time <= s.streamTime-s.retention }

// all yields what is not expired, by ascending key and time.
func (s *byTime[E]) all(time func(E) int64) []E {
	var all []E
	for _, key := range sortedKeys(s.entries) {
		for _, e := range s.entries[key] {
			if !s.expired(time(e)) {
				all = append(all, e)
			}
		}
	}
	return all
}

// WindowStore is a window store in memory, one partition of it. It is not safe for concurrent use.
type WindowStore struct{ byTime[topology.WindowEntry] }

// NewWindowStore returns an empty store that keeps windows for retention, in whole milliseconds.
func NewWindowStore(retention time.Duration) *WindowStore {
	return &WindowStore{newByTime[topology.WindowEntry](retention)}
}

func newByTime[E any](retention time.Duration) byTime[E] {
	return byTime[E]{retention: retention.Milliseconds(), streamTime: -1, entries: map[string][]E{}}
}

func compareWindows(a, b topology.WindowEntry) int { return cmp.Compare(a.Start, b.Start) }

// Put implements topology.WindowStore.
func (s *WindowStore) Put(key, value []byte, start, timestamp int64) error {
	e := topology.WindowEntry{Key: key, Start: start, Value: value, Timestamp: timestamp}
	if s.put(key, e, start, value == nil, compareWindows) {
		s.log(binary.BigEndian.AppendUint32(topology.WindowKey(key, start), 0), value, timestamp)
	}
	return nil
}

// Fetch implements topology.WindowStore.
func (s *WindowStore) Fetch(key []byte, start int64) (value []byte, timestamp int64, found bool, err error) {
	for e, err := range s.FetchRange(key, start, start) {
		return e.Value, e.Timestamp, true, err
	}
	return nil, 0, false, nil
}

// FetchRange implements topology.WindowStore.
func (s *WindowStore) FetchRange(key []byte, from, to int64) iter.Seq2[topology.WindowEntry, error] {
	return func(yield func(topology.WindowEntry, error) bool) {
		for _, e := range s.entries[string(key)] {
			if e.Start >= from && e.Start <= to && !s.expired(e.Start) && !yield(e, nil) {
				return
			}
		}
	}
}

// StreamTime implements topology.WindowStore.
func (s *WindowStore) StreamTime() int64 { return s.streamTime }

// All returns every window that is not expired, by ascending key and start.
func (s *WindowStore) All() []topology.WindowEntry {
	return s.all(func(e topology.WindowEntry) int64 { return e.Start })
}

// SessionStore is a session store in memory, one partition of it. It is not safe for concurrent use.
type SessionStore struct{ byTime[topology.SessionEntry] }

// NewSessionStore returns an empty store that keeps sessions for retention, in whole milliseconds.
func NewSessionStore(retention time.Duration) *SessionStore {
	return &SessionStore{newByTime[topology.SessionEntry](retention)}
}

func compareSessions(a, b topology.SessionEntry) int {
	return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Start, b.Start))
}

// Put implements topology.SessionStore.
func (s *SessionStore) Put(key, value []byte, start, end, timestamp int64) error {
	e := topology.SessionEntry{Key: key, Start: start, End: end, Value: value}
	if s.put(key, e, end, value == nil, compareSessions) {
		s.log(topology.SessionKey(key, start, end), value, timestamp)
	}
	return nil
}

// Remove implements topology.SessionStore.
func (s *SessionStore) Remove(key []byte, start, end, timestamp int64) error {
	return s.Put(key, nil, start, end, timestamp)
}

// FindSessions implements topology.SessionStore.
func (s *SessionStore) FindSessions(key []byte, earliestEnd, latestStart int64) iter.Seq2[topology.SessionEntry, error] {
	return func(yield func(topology.SessionEntry, error) bool) {
		for _, e := range s.entries[string(key)] {
			if e.End >= earliestEnd && e.Start <= latestStart && !s.expired(e.End) && !yield(e, nil) {
				return
			}
		}
	}
}

// StreamTime implements topology.SessionStore.
func (s *SessionStore) StreamTime() int64 { return s.streamTime }

// All returns every session that is not expired, by ascending key, end and start.
func (s *SessionStore) All() []topology.SessionEntry {
	return s.all(func(e topology.SessionEntry) int64 { return e.End })
}

// Version is one version of a key in a versioned store.
type Version struct {
	Key       []byte
	Value     []byte // nil: the key is absent from then on
	Timestamp int64  // since when it is valid, in milliseconds
}

// VersionedStore is a versioned store in memory, one partition of it. It is not safe for concurrent use.
type VersionedStore struct {
	retention  int64
	streamTime int64
	versions   map[string][]Version // by ascending timestamp
	changelog
}

// NewVersionedStore returns an empty store that keeps old versions for history, in whole milliseconds.
func NewVersionedStore(history time.Duration) *VersionedStore {
	return &VersionedStore{retention: history.Milliseconds(), streamTime: -1, versions: map[string][]Version{}}
}

// Put implements topology.VersionedStore.
func (s *VersionedStore) Put(key, value []byte, timestamp int64) (accepted bool, err error) {
	if timestamp < s.streamTime-s.retention {
		return false, nil
	}
	s.streamTime = max(s.streamTime, timestamp)
	of := s.versions[string(key)]
	v := Version{Key: key, Value: value, Timestamp: timestamp}
	i, found := slices.BinarySearchFunc(of, v, func(a, b Version) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	if found {
		of[i] = v
	} else {
		of = slices.Insert(of, i, v)
	}
	s.versions[string(key)] = of
	s.log(key, value, timestamp)
	return true, nil
}

// Get implements topology.VersionedStore.
func (s *VersionedStore) Get(key []byte) (value []byte, timestamp int64, found bool, err error) {
	of := s.versions[string(key)]
	if len(of) == 0 || of[len(of)-1].Value == nil {
		return nil, 0, false, nil
	}
	last := of[len(of)-1]
	return last.Value, last.Timestamp, true, nil
}

// GetAsOf implements topology.VersionedStore.
func (s *VersionedStore) GetAsOf(key []byte, asOf int64) (value []byte, timestamp int64, found bool, err error) {
	for _, v := range slices.Backward(s.versions[string(key)]) {
		switch {
		case v.Timestamp <= asOf:
			if v.Value == nil {
				return nil, 0, false, nil
			}
			return v.Value, v.Timestamp, true, nil
		case asOf < s.streamTime-s.retention:
			return nil, 0, false, nil // only the latest version answers
		}
	}
	return nil, 0, false, nil
}

// StreamTime implements topology.VersionedStore.
func (s *VersionedStore) StreamTime() int64 { return s.streamTime }

// All returns every version that was put and not replaced, by ascending key and timestamp; reads see fewer once the
// retention is over.
func (s *VersionedStore) All() []Version {
	var all []Version
	for _, key := range sortedKeys(s.versions) {
		all = append(all, s.versions[key]...)
	}
	return all
}

// changelog is what a store would have written to its changelog topic.
type changelog struct{ records []topology.Record }

func (c *changelog) log(key, value []byte, timestamp int64) {
	c.records = append(c.records, topology.Record{
		Offset: int64(len(c.records)), Key: bytes.Clone(key), Value: value, Timestamp: timestamp,
	})
}

// Changelog returns what the store would have written to its changelog topic, in Kafka Streams' format: every write, in
// order. A node writes the last one of each key in a transaction.
func (c *changelog) Changelog() []topology.Record { return slices.Clone(c.records) }
