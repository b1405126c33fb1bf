package follow

import (
	"errors"
	"fmt"
	"time"

	"github.com/iqgate/iqgate/topology"
)

// changelogSlack is what Kafka Streams adds to a store's retention in its changelog's configuration:
// windowstore.changelog.additional.retention.ms by default, and the constant of VersionedChangelogTopicConfig.
const changelogSlack = 24 * time.Hour

// maxAge bounds how far the time in a window's or session's key may lie from its record's timestamp, so that what is no
// time at all is not taken for one.
const maxAge = 50 * 365 * 24 * time.Hour

// kindOfTopic finds out what kind of store a changelog is of. Kafka Streams configures them differently: those of windows and
// sessions are compacted and deleted, which of the two the keys tell; those of versioned stores are compacted late. The
// error says what cannot be told, and why.
func kindOfTopic(t Topic) (topology.StoreKind, error) {
	if t.Configs == nil {
		return 0, errors.New("its configuration may not be read, so its kind is not known")
	}
	switch {
	case t.compacted() && t.deleted():
		return timedKind(t)
	case t.compacted():
		if lag, ok := t.millis("min.compaction.lag.ms"); ok && lag >= changelogSlack {
			return topology.Versioned, nil
		}
	}
	return topology.KeyValue, nil
}

// timedKind tells windows from sessions by the records.
func timedKind(t Topic) (topology.StoreKind, error) {
	var records, windows, sessions, duplicates int
	for _, r := range t.Records {
		if r.Key == nil {
			continue
		}
		records++
		if key, ok := readWindowKey(r.Key); ok && near(key.start, r.Timestamp) {
			windows++
			if key.sequence != 0 {
				duplicates++
			}
		}
		if key, ok := readSessionKey(r.Key); ok && near(key.start, r.Timestamp) && near(key.end, r.Timestamp) {
			sessions++
		}
	}
	switch {
	case records == 0:
		return 0, errors.New("it is a window or a session store, and there is no record yet that tells which")
	case windows == records && duplicates == 0:
		return topology.Window, nil
	case sessions == records:
		return topology.Session, nil
	case windows == records:
		return 0, errDuplicates
	default:
		return 0, fmt.Errorf("of %d records %d have keys of windows and %d of sessions", records, windows, sessions)
	}
}

// errDuplicates is why a window store that keeps duplicates is not followed.
var errDuplicates = errors.New("its windows keep duplicates, as the buffer of a join of streams does; nobody can ask for them")

// near says whether a time in a key may belong to a record of that timestamp.
func near(ms, timestamp int64) bool {
	return ms >= 0 && max(ms, timestamp)-min(ms, timestamp) <= maxAge.Milliseconds()
}

// retentionOf is the retention that the application gave the store, by what it made of it in the topic's configuration.
func retentionOf(kind topology.StoreKind, t Topic) (time.Duration, bool) {
	key := ""
	switch kind {
	case topology.Window, topology.Session:
		key = "retention.ms"
	case topology.Versioned:
		key = "min.compaction.lag.ms"
	case topology.KeyValue:
		return 0, true
	}
	d, ok := t.millis(key)
	return d - changelogSlack, ok && d > changelogSlack
}

// stepOf is the largest time that all windows' starts are a multiple of: the windows' size, or what hopping windows advance
// by, or a multiple of it where there are few records. It is a hint for people; 0 says nothing.
func stepOf(records []Record) time.Duration {
	var step int64
	seen := make(map[int64]bool)
	for _, r := range records {
		if key, ok := readWindowKey(r.Key); ok && key.start >= 0 {
			seen[key.start] = true
			for a := key.start; a != 0; {
				step, a = a, step%a
			}
		}
	}
	if len(seen) < 3 {
		return 0
	}
	return time.Duration(step) * time.Millisecond
}
