package topology

import "iter"

// WindowEntry is one window of a key.
type WindowEntry struct {
	Key       []byte
	Start     int64 // milliseconds since 1970
	Value     []byte
	Timestamp int64 // milliseconds since 1970: the largest of the window's records
}

// WindowStore is a processor's view of its task's partition of a window store: its own uncommitted writes included. A
// window is expired, and neither found nor put, when Start <= StreamTime - Retention; the wall clock has no say. What is
// said at [KeyValueStore] about keys, bytes and goroutines holds here too.
type WindowStore interface {
	// Put sets the value of a key's window. A nil value deletes it. The put of an expired window does nothing. It raises the
	// stream time to start.
	Put(key, value []byte, start, timestamp int64) error
	// Fetch returns the value and timestamp of one window. An absent or expired one is found=false and no error.
	Fetch(key []byte, start int64) (value []byte, timestamp int64, found bool, err error)
	// FetchRange yields the windows of a key that begin from from to to, both included, in ascending order. It ends after
	// the first error. The store is not written to during the loop.
	FetchRange(key []byte, from, to int64) iter.Seq2[WindowEntry, error]
	// StreamTime is the largest start that was ever put, uncommitted ones included, in milliseconds; -1 before the first.
	StreamTime() int64
}

// SessionEntry is one session of a key.
type SessionEntry struct {
	Key        []byte
	Start, End int64 // milliseconds since 1970, both included
	Value      []byte
}

// SessionStore is a processor's view of its task's partition of a session store: its own uncommitted writes included. A
// session is expired, and neither found nor put, when End <= StreamTime - Retention.
type SessionStore interface {
	// Put sets the value of a session. A nil value is Remove. The put of an expired session does nothing. It raises the
	// stream time to end. The timestamp is that of the changelog record.
	Put(key, value []byte, start, end, timestamp int64) error
	// Remove removes a session, if it is there.
	Remove(key []byte, start, end, timestamp int64) error
	// FindSessions yields the sessions of a key that end at earliestEnd or later and begin at latestStart or earlier, by
	// ascending end and then start. It ends after the first error. The store is not written to during the loop.
	FindSessions(key []byte, earliestEnd, latestStart int64) iter.Seq2[SessionEntry, error]
	// StreamTime is the largest end that was ever put or removed, uncommitted ones included, in milliseconds; -1 before the
	// first.
	StreamTime() int64
}

// VersionedStore is a processor's view of its task's partition of a versioned store (KIP-889): its own uncommitted writes
// included. The latest version of a key is kept for good; older ones can be read as of times not before StreamTime -
// Retention.
type VersionedStore interface {
	// Put adds the version of a key that is valid from timestamp on, in place of one with the same timestamp. A nil value
	// says that the key is absent from then on. The order of puts does not matter, but one with timestamp < StreamTime -
	// Retention is refused: accepted=false and no error. It raises the stream time to timestamp.
	Put(key, value []byte, timestamp int64) (accepted bool, err error)
	// Get returns the latest version and since when it is valid. An absent key is found=false and no error.
	Get(key []byte) (value []byte, timestamp int64, found bool, err error)
	// GetAsOf returns the version that was valid at a time. As of times before StreamTime - Retention only the latest
	// version is found, if it was valid by then.
	GetAsOf(key []byte, asOf int64) (value []byte, timestamp int64, found bool, err error)
	// StreamTime is the largest timestamp that was ever put, uncommitted ones included, in milliseconds; -1 before the
	// first.
	StreamTime() int64
}

// WindowedOutput is an [Output] that has stores of all kinds. NewTask needs it for a sub-topology with a store that is not
// KeyValue, and asks each store once from the method of its kind; a nil result is an error of NewTask.
type WindowedOutput interface {
	Output
	// WindowStore returns the task's partition of a window store of its sub-topology.
	WindowStore(name string) WindowStore
	// SessionStore returns the task's partition of a session store of its sub-topology.
	SessionStore(name string) SessionStore
	// VersionedStore returns the task's partition of a versioned store of its sub-topology.
	VersionedStore(name string) VersionedStore
}
