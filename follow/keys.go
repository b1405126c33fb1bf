package follow

import "encoding/binary"

// Sizes of what Kafka Streams adds to the keys of windows and sessions in changelogs.
const (
	timeBytes     = 8
	sequenceBytes = 4
)

// timedKey is what a changelog's key tells of time, in milliseconds.
type timedKey struct {
	start, end int64
	sequence   uint32
}

// readWindowKey reads a key, its window's start and a sequence number (WindowKeySchema).
func readWindowKey(key []byte) (timedKey, bool) {
	n := len(key) - timeBytes - sequenceBytes
	if n < 0 {
		return timedKey{}, false
	}
	return timedKey{start: plainTime(key[n:]), sequence: binary.BigEndian.Uint32(key[n+timeBytes:])}, true
}

// readSessionKey reads a key, its session's end and then its start (SessionKeySchema).
func readSessionKey(key []byte) (timedKey, bool) {
	n := len(key) - 2*timeBytes
	if n < 0 {
		return timedKey{}, false
	}
	k := timedKey{end: plainTime(key[n:]), start: plainTime(key[n+timeBytes:])}
	return k, k.start <= k.end
}

func plainTime(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }
