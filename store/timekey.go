package store

import (
	"bytes"
	"encoding/binary"
	"errors"
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

var errBadTimedKey = errors.New("malformed internal key")

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

// CheckKey returns an error for what is no internal key of this kind. Every key is one of a key-value store.
func (s Schema) CheckKey(internal []byte) error {
	if !s.timed() {
		return nil
	}
	key, _, _, err := s.split(internal)
	if err != nil {
		return err
	}
	_, err = unescape(key)
	return err
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
