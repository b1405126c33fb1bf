package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
)

// Badger refuses empty keys, keys over 65,000 bytes and keys that begin with "!badger!". So each key gets a prefix
// byte, and of a long key only the first bytes and a hash are the database's key:
//
//	'd' key                      a plain key, up to maxPlainKey bytes
//	'd' key[:maxPlainKey] hash   a longer key; the whole key is kept with the value
//	'm' name                     the store's own entries: identity and position
//	'w' slot                     witnesses, see witness.go
//	's' number                   filling, see reclaim.go
//
// Long keys that share their first maxPlainKey bytes are neighbours in the database (a run), in the order of their
// hashes; a scan sorts a run by the whole keys. All of a run comes after the plain key that equals its prefix.
const (
	prefixData    = 'd'
	prefixMeta    = 'm'
	prefixWitness = 'w'
	prefixSpill   = 's'

	// maxPlainKey is well below Badger's limit, so that a key never fills a block, a batch or a small memtable.
	// Kafka's default limit for a whole record is 1 MiB; keys this long are rare.
	maxPlainKey = 8 << 10

	longKeyBytes = 1 + maxPlainKey + sha256.Size // of the database's key; no plain key is that long
)

var (
	identityKey = []byte{prefixMeta, 'i'}
	positionKey = []byte{prefixMeta, 'p'}
)

// encodeKey appends the database's key of a user's key.
func encodeKey(dst, key []byte) []byte {
	dst = append(dst, prefixData)
	if len(key) <= maxPlainKey {
		return append(dst, key...)
	}
	hash := sha256.Sum256(key)
	dst = append(dst, key[:maxPlainKey]...)
	return append(dst, hash[:]...)
}

// encodedKeyLen is the length of what encodeKey appends.
func encodedKeyLen(key []byte) int {
	if len(key) <= maxPlainKey {
		return 1 + len(key)
	}
	return longKeyBytes
}

func isLongKey(dbKey []byte) bool {
	return len(dbKey) == longKeyBytes
}

// seekForward is where a forward scan from a key begins: at it, or at the first of its run.
func seekForward(from []byte) []byte {
	return append([]byte{prefixData}, from[:min(len(from), maxPlainKey)]...)
}

// seekReverse is where a reverse scan below a key begins (nil: at the end): at it, or at the last of its run.
func seekReverse(to []byte) []byte {
	if to == nil {
		return []byte{prefixData + 1}
	}
	seek := seekForward(to)
	if len(to) > maxPlainKey {
		seek = append(seek, bytes.Repeat([]byte{0xff}, sha256.Size+1)...)
	}
	return seek
}

// A stored value is the record's timestamp (8 bytes, big-endian), flags, the key's length and the key when the key
// is long, and the bytes. It is never empty, so a value that Badger lost (it then returns nothing and no error)
// is told from an empty one. A deleted key has no entry: Badger's own delete marker is the tombstone.
const (
	valueHeaderBytes = 8 + 1
	flagLongKey      = 1
)

var errShortValue = errors.New("stored value is cut short")

// encodeValue appends the stored value of a put.
func encodeValue(dst, key, value []byte, timestamp int64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(timestamp))
	if len(key) <= maxPlainKey {
		dst = append(dst, 0)
	} else {
		dst = append(dst, flagLongKey)
		dst = binary.AppendUvarint(dst, uint64(len(key)))
		dst = append(dst, key...)
	}
	return append(dst, value...)
}

// encodedValueLen is at least the length of what encodeValue appends.
func encodedValueLen(key, value []byte) int {
	n := valueHeaderBytes + len(value)
	if len(key) > maxPlainKey {
		n += binary.MaxVarintLen64 + len(key)
	}
	return n
}

// decodeValue splits a stored value; longKey is nil for a plain key. The results share b's memory.
func decodeValue(b []byte) (v Value, longKey []byte, err error) {
	if len(b) < valueHeaderBytes {
		return Value{}, nil, errShortValue
	}
	v.Timestamp = int64(binary.BigEndian.Uint64(b))
	flags, rest := b[8], b[valueHeaderBytes:]
	if flags&flagLongKey != 0 {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return Value{}, nil, errShortValue
		}
		rest = rest[size:]
		longKey, rest = rest[:n:n], rest[n:]
	}
	v.Bytes = slices.Clip(rest)
	return v, longKey, nil
}
