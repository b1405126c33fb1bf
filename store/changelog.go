package store

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// The changelog records are those of Kafka Streams 4.x:
//
//	key-value  key                                       null is a delete
//	window     key, int64 start, int32 sequence          null is a delete (WindowKeySchema)
//	session    key, int64 end, int64 start               null is a delete (SessionKeySchema)
//	versioned  key; the record's timestamp is the version's   null is a version: from then on the key is absent
//
// The times are plain big-endian numbers there, and values carry no timestamp of their own: it is the record's.
const (
	sequenceBytes = 4

	windowSuffix  = timeBytes + sequenceBytes
	sessionSuffix = 2 * timeBytes
)

// A version is stored as a put in any case: nothing for a version at which the key was absent, or this byte and the value.
const versionPresent = 1

// RecordError says that a changelog record is not one of the store's kind.
type RecordError struct {
	Kind   Kind
	Bytes  int    // of the record's key
	Reason string // what is wrong with the key
}

// Error names the kind, the key's length and what is wrong.
func (e *RecordError) Error() string {
	return fmt.Sprintf("record key of %d bytes is none of a %s store: %s", e.Bytes, e.Kind, e.Reason)
}

// FromChangelog reads a changelog record as a change; a nil value is a tombstone. The change of a key-value store shares
// the record's memory. What is malformed is a *RecordError.
func (s Schema) FromChangelog(key, value []byte, timestamp int64) (Change, error) {
	c := Change{Value: value, Delete: value == nil, Timestamp: timestamp}
	switch s.Kind {
	case KindKeyValue:
		c.Key = key
	case KindWindow:
		n := len(key) - windowSuffix
		if n < 0 {
			return Change{}, &RecordError{s.Kind, len(key), "it is shorter than the window's start and sequence"}
		}
		if seq := binary.BigEndian.Uint32(key[n+timeBytes:]); seq != 0 {
			return Change{}, &RecordError{s.Kind, len(key), fmt.Sprintf("sequence %d: stores that keep duplicates are not supported", seq)}
		}
		c.Key = internalKey(key[:n], plainTime(key[n:]))
	case KindSession:
		n := len(key) - sessionSuffix
		if n < 0 {
			return Change{}, &RecordError{s.Kind, len(key), "it is shorter than the session's end and start"}
		}
		end, start := plainTime(key[n:]), plainTime(key[n+timeBytes:])
		if start > end {
			return Change{}, &RecordError{s.Kind, len(key), fmt.Sprintf("start %d is after end %d", start, end)}
		}
		c.Key = internalKey(key[:n], end, start)
	case KindVersioned:
		return version(internalKey(key, timestamp), value, timestamp), nil
	default:
		return Change{}, &RecordError{s.Kind, len(key), "unknown kind"}
	}
	return c, nil
}

// ToChangelog is the record of a change; a nil value is a tombstone.
func (s Schema) ToChangelog(c Change) (key, value []byte, timestamp int64, err error) {
	value = c.Value
	if value == nil {
		value = []byte{}
	}
	if c.Delete {
		value = nil
	}
	if s.Kind == KindKeyValue {
		return c.Key, value, c.Timestamp, nil
	}
	key, first, second, err := s.parse(c.Key)
	if err != nil {
		return nil, nil, 0, err
	}
	switch s.Kind {
	case KindWindow:
		key = binary.BigEndian.AppendUint64(key, uint64(first))
		key = binary.BigEndian.AppendUint32(key, 0)
	case KindSession:
		key = binary.BigEndian.AppendUint64(key, uint64(first))
		key = binary.BigEndian.AppendUint64(key, uint64(second))
	case KindVersioned:
		return key, versionValue(value), first, nil
	case KindKeyValue:
	}
	return key, value, c.Timestamp, nil
}

// version is the change that puts a version; a nil value is one at which the key was absent.
func version(internal, value []byte, timestamp int64) Change {
	c := Change{Key: internal, Timestamp: timestamp}
	if value != nil {
		c.Value = append(make([]byte, 0, 1+len(value)), versionPresent)
		c.Value = append(c.Value, value...)
	}
	return c
}

// versionValue is what a stored version holds; nil for one at which the key was absent.
func versionValue(stored []byte) []byte {
	if len(stored) == 0 {
		return nil
	}
	return slices.Clip(stored[1:])
}

func plainTime(b []byte) int64 {
	return int64(binary.BigEndian.Uint64(b))
}
