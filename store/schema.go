package store

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Kind says what the keys of a store are.
type Kind uint8

// The kinds of a store.
const (
	KindKeyValue  Kind = iota // a key has a value
	KindWindow                // a key and a window's start have a value
	KindSession               // a key and a session's start and end have a value
	KindVersioned             // a key has a value from a timestamp on, until its next version
)

var kindNames = [...]string{KindKeyValue: "key-value", KindWindow: "window", KindSession: "session", KindVersioned: "versioned"}

// String is the kind's name: key-value, window, session or versioned.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// NoStreamTime is the stream time of a store that was given nothing yet, and of every key-value store (Kafka's NO_TIMESTAMP).
const NoStreamTime = -1

// Schema is the kind of a store, and how long it keeps what it is given. It is part of the store's identity: what another
// retention expired cannot be had back, so a store with another schema is rebuilt. The zero value is a key-value store.
type Schema struct {
	Kind Kind `json:"kind"`

	// WindowSize is the length of a window store's windows, in whole milliseconds; 0 for the other kinds. It is not in the
	// stored keys: a window's end is its start and this.
	WindowSize time.Duration `json:"window_size,omitempty"`

	// Retention is how far behind the stream time something is kept, in whole milliseconds; 0 for a key-value store, which
	// keeps everything. A window or session is expired when its start or its end is at or before stream time - retention
	// (Kafka Streams' AbstractRocksDBSegmentedBytesStore), and never visible again. Of a versioned store it is the history
	// retention, and the grace period too (RocksDBVersionedStore).
	Retention time.Duration `json:"retention,omitempty"`
}

// Validate reports every bad field.
func (s Schema) Validate() error {
	var errs []error
	if int(s.Kind) >= len(kindNames) {
		errs = append(errs, fmt.Errorf("Schema.Kind is %d, want 0 to %d", s.Kind, len(kindNames)-1))
	}
	sized, kept := s.Kind == KindWindow, s.Kind != KindKeyValue
	errs = append(errs, checkSpan("Schema.WindowSize", s.WindowSize, s.Kind, sized), checkSpan("Schema.Retention", s.Retention, s.Kind, kept))
	if sized && s.Retention < s.WindowSize {
		errs = append(errs, fmt.Errorf("Schema.Retention is %s, want at least the window size of %s", s.Retention, s.WindowSize))
	}
	return errors.Join(errs...)
}

func checkSpan(name string, d time.Duration, kind Kind, wanted bool) error {
	switch {
	case !wanted && d != 0:
		return fmt.Errorf("%s is %s, want 0s for a %s store", name, d, kind)
	case wanted && (d < time.Millisecond || d%time.Millisecond != 0):
		return fmt.Errorf("%s is %s, want whole milliseconds, at least 1ms, for a %s store", name, d, kind)
	}
	return nil
}

// String describes the schema in a few words.
func (s Schema) String() string {
	switch s.Kind {
	case KindWindow:
		return fmt.Sprintf("window of %s kept for %s", s.WindowSize, s.Retention)
	case KindSession, KindVersioned:
		return fmt.Sprintf("%s kept for %s", s.Kind, s.Retention)
	case KindKeyValue:
	}
	return s.Kind.String()
}

// timed reports that keys carry a time, and that there is a stream time.
func (s Schema) timed() bool {
	return s.Kind != KindKeyValue
}

// Horizon is the stream time less the retention: the newest time that is expired in a window or session store, and the
// oldest that a versioned store answers for and takes. At both ends of int64 it stops.
func (s Schema) Horizon(streamTime int64) int64 {
	if h := streamTime - s.Retention.Milliseconds(); h <= streamTime {
		return h
	}
	return math.MinInt64
}

// Admit returns the stream time after a put or delete of an internal key, and whether a store at the given stream time
// keeps it. What is not kept is late: a window or session that is expired (it moves the stream time, and is never
// visible), or a version older than the history retention (it changes nothing, in Kafka Streams too).
func (s Schema) Admit(streamTime int64, key []byte) (next int64, kept bool) {
	switch s.Kind {
	case KindWindow, KindSession:
		at := s.timeOf(key)
		streamTime = max(streamTime, at)
		return streamTime, at > s.Horizon(streamTime)
	case KindVersioned:
		at := s.timeOf(key)
		if at < s.Horizon(streamTime) {
			return streamTime, false
		}
		return max(streamTime, at), true
	case KindKeyValue:
	}
	return NoStreamTime, true
}

// Expired reports whether a window or session is expired at a stream time and so must not be seen. Keys and versions are
// never: which version may be read is for VersionedReader to say.
func (s Schema) Expired(streamTime int64, key []byte) bool {
	if s.Kind != KindWindow && s.Kind != KindSession {
		return false
	}
	at := s.timeOf(key)
	return at <= s.Horizon(streamTime)
}

// Coalesce returns the last of several changes of an internal key, in the order of these last changes. A store at the
// given stream time has the same state after them as after all changes one by one: of versions, those that it would
// refuse are left out first, since a refused one must not replace one that was taken before.
func (s Schema) Coalesce(changes []Change, streamTime int64) []Change {
	last := make(map[string]int, len(changes))
	for i := range changes {
		var kept bool
		if streamTime, kept = s.Admit(streamTime, changes[i].Key); kept || s.Kind != KindVersioned {
			last[string(changes[i].Key)] = i
		}
	}
	out := make([]Change, 0, len(last))
	for i := range changes {
		if at, ok := last[string(changes[i].Key)]; ok && at == i {
			out = append(out, changes[i])
		}
	}
	return out
}
