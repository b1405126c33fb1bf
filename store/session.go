package store

import (
	"iter"
	"math"
)

// SessionEntry is the value of a key in a session; the caller owns the bytes.
type SessionEntry struct {
	Key        []byte
	Start, End int64 // of the session, in milliseconds, both included
	Value      Value
	Cursor     []byte // for ScanOptions.After
}

// SessionReader reads a session store: the newest state, a Snapshot, or an Overlay. Expired sessions are not there.
type SessionReader struct {
	r      Reader
	schema Schema
}

// NewSessionReader reads r, which must be of a session store; else it is a *KindError.
func NewSessionReader(r Reader) (SessionReader, error) {
	s := r.Schema()
	return SessionReader{r, s}, wantKind(s, KindSession)
}

// Get returns the value of a key in one session, and whether there is one (Kafka Streams' fetchSession).
func (s SessionReader) Get(key []byte, start, end int64) (Value, bool, error) {
	return s.r.Get(internalKey(key, end, start))
}

// Fetch yields all sessions of a key, by their ends and then their starts, or in reverse against that order. An error is
// the last thing that it yields.
func (s SessionReader) Fetch(key []byte, o ScanOptions) iter.Seq2[SessionEntry, error] {
	return s.FindSessions(key, math.MinInt64, math.MaxInt64, o)
}

// FindSessions yields the sessions of a key that end at or after a time and start at or before another, in milliseconds:
// those that a record between the two may belong to.
func (s SessionReader) FindSessions(key []byte, earliestEnd, latestStart int64, o ScanOptions) iter.Seq2[SessionEntry, error] {
	sc := s.schema.scan(OneKey(key), o)
	sc.narrow(internalKey(key, earliestEnd), s.schema.edge(key, true))
	return s.scan(sc, earliestEnd, latestStart)
}

// FetchRange yields the sessions of a range of keys that end at or after a time and start at or before another, by key,
// end and start, or against that order. Times{math.MinInt64, math.MaxInt64}, AllTimes, is all of them: From is the earliest
// end and To the latest start.
func (s SessionReader) FetchRange(keys KeyRange, times Times, o ScanOptions) iter.Seq2[SessionEntry, error] {
	return s.scan(s.schema.scan(keys, o), times.From, times.To)
}

// Count is the number of sessions that FetchRange yields. It reads no values.
func (s SessionReader) Count(keys KeyRange, times Times) (int64, error) {
	return count(s.FetchRange(keys, times, ScanOptions{KeysOnly: true}))
}

func (s SessionReader) scan(sc Scan, earliestEnd, latestStart int64) iter.Seq2[SessionEntry, error] {
	if earliestEnd != math.MinInt64 || latestStart != math.MaxInt64 {
		sc.Keep = func(internal []byte) bool {
			_, end, start, err := s.schema.split(internal)
			return err != nil || end >= earliestEnd && start <= latestStart
		}
	}
	return decoded(s.r.Scan(sc), s.schema, func(key []byte, end, start int64, e Entry) SessionEntry {
		return SessionEntry{Key: key, Start: start, End: end, Value: e.Value, Cursor: e.Key}
	})
}

// SessionStore is a task's session store: what its Overlay shows, and writes to it.
type SessionStore struct {
	SessionReader
	o *Overlay
}

// NewSessionStore reads and writes an overlay over a session store; over another it is a *KindError.
func NewSessionStore(o *Overlay) (SessionStore, error) {
	r, err := NewSessionReader(o)
	return SessionStore{r, o}, err
}

// Put writes a key's value in a session, with its record's timestamp, all in milliseconds. It reports whether the session
// is kept: one that is expired already, or ends before it starts, is dropped, and to be counted as such.
func (s SessionStore) Put(key []byte, start, end int64, value []byte, timestamp int64) (kept bool) {
	internal := internalKey(key, end, start)
	if start > end || !s.o.admits(internal) {
		return false
	}
	s.o.Put(internal, value, timestamp)
	return true
}

// Delete removes a session, whether or not it is there. It reports whether the session is kept, as Put.
func (s SessionStore) Delete(key []byte, start, end, timestamp int64) (kept bool) {
	internal := internalKey(key, end, start)
	if start > end || !s.o.admits(internal) {
		return false
	}
	s.o.Delete(internal, timestamp)
	return true
}
