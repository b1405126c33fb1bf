package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// The internal key of a window, session or versioned store, which is what Change.Key and Entry.Key hold, is the user's
// key, escaped so that no key is a prefix of another, and times that sort as numbers:
//
//	window     key' 00 01 start
//	session    key' 00 01 end start
//	versioned  key' 00 01 timestamp
//
// key' is the key with each 00 followed by ff; a time is 8 bytes, big-endian, the sign bit flipped. So the byte order of
// internal keys is the order by key, then by time, whatever bytes the keys have.
const (
	escaped    = 0xff
	terminator = 0x01
	behindKey  = 0x02 // above the terminator and below an escaped 00: behind all times of a key, before any longer key

	timeBytes = 8
)

var (
	errBadTimedKey    = errors.New("malformed internal key")
	errDeletedVersion = errors.New("a version is removed; a deletion of a key is a version to be put")
)

// appendEscaped appends key'.
func appendEscaped(dst, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			return append(dst, key...)
		}
		dst = append(append(dst, key[:i+1]...), escaped)
		key = key[i+1:]
	}
}

// keyStart appends what all internal keys of a key begin with.
func keyStart(dst, key []byte) []byte {
	return append(appendEscaped(dst, key), 0, terminator)
}

func appendTime(dst []byte, ms int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(ms)^1<<63)
}

func decodeTime(b []byte) int64 {
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63)
}

// internalKey makes an internal key of one or two times.
func internalKey(key []byte, times ...int64) []byte {
	b := make([]byte, 0, len(key)+bytes.Count(key, []byte{0})+2+timeBytes*len(times))
	b = keyStart(b, key)
	for _, t := range times {
		b = appendTime(b, t)
	}
	return b
}

// timesOf is how many times an internal key ends with.
func (s Schema) timesOf() int {
	switch s.Kind {
	case KindSession:
		return 2
	case KindWindow, KindVersioned:
		return 1
	case KindKeyValue:
	}
	return 0
}

// split takes an internal key apart. key' is still escaped and shares memory; second is a session's start.
func (s Schema) split(internal []byte) (escapedKey []byte, first, second int64, err error) {
	n := len(internal) - s.timesOf()*timeBytes
	if n < 2 || internal[n-2] != 0 || internal[n-1] != terminator {
		return nil, 0, 0, errBadTimedKey
	}
	first = decodeTime(internal[n:])
	if s.Kind == KindSession {
		second = decodeTime(internal[n+timeBytes:])
	}
	return internal[:n-2], first, second, nil
}

// parse takes an internal key apart, into memory of its own. It is not for a key-value store.
func (s Schema) parse(internal []byte) (key []byte, first, second int64, err error) {
	escapedKey, first, second, err := s.split(internal)
	if err == nil {
		key, err = unescape(escapedKey)
	}
	if err != nil {
		return nil, 0, 0, fmt.Errorf("internal key of %d bytes in a %s store: %w", len(internal), s.Kind, err)
	}
	return key, first, second, nil
}

// CheckChange returns an error for a change that is none of this kind: its key is no internal key, or it removes a version,
// where a version that says so is to be put (Schema.FromChangelog makes one).
func (s Schema) CheckChange(c *Change) error {
	if !s.timed() {
		return nil
	}
	if s.Kind == KindVersioned && c.Delete {
		return errDeletedVersion
	}
	_, _, _, err := s.parse(c.Key)
	return err
}

// Span is what an internal key says of time, in milliseconds: a window from Start to before End, a session from Start to End
// with both, a version from Start on, whose End is not in its key and is NoEnd here.
type Span struct {
	Start, End int64
}

// Decode returns the user's key and the times of an internal key; a key-value store's key is the user's.
func (s Schema) Decode(internal []byte) (key []byte, span Span, err error) {
	if !s.timed() {
		return bytes.Clone(internal), Span{}, nil
	}
	key, first, second, err := s.parse(internal)
	switch {
	case err != nil:
		return nil, Span{}, err
	case s.Kind == KindWindow:
		return key, Span{first, s.windowEnd(first)}, nil
	case s.Kind == KindSession:
		return key, Span{second, first}, nil
	}
	return key, Span{first, NoEnd}, nil
}

// WindowKey is the internal key of a key in the window that starts at a time, in milliseconds.
func WindowKey(key []byte, start int64) []byte {
	return internalKey(key, start)
}

// SessionKey is the internal key of a key's session.
func SessionKey(key []byte, start, end int64) []byte {
	return internalKey(key, end, start)
}

// VersionKey is the internal key of a key's version.
func VersionKey(key []byte, timestamp int64) []byte {
	return internalKey(key, timestamp)
}

// timeOf is the time that counts for expiry: a window's start, a session's end, a version's timestamp.
func (s Schema) timeOf(internal []byte) int64 {
	n := len(internal) - s.timesOf()*timeBytes
	if n < 0 || !s.timed() {
		return math.MinInt64
	}
	return decodeTime(internal[n:])
}

// unescape returns the user's key in memory of its own.
func unescape(key []byte) ([]byte, error) {
	out := make([]byte, 0, len(key))
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			return append(out, key...), nil
		}
		if i+1 >= len(key) || key[i+1] != escaped {
			return nil, errBadTimedKey
		}
		out = append(out, key[:i+1]...)
		key = key[i+2:]
	}
}

// prefixEnd is the first key above all that begin with a prefix; nil when there is none.
func prefixEnd(prefix []byte) []byte {
	end := slices.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}
