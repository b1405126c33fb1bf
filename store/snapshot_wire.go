package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// SnapshotFormat is the version of this: a snapshot on its way is a stream of bytes, cut anywhere: each entry's key and stored value, in the order of the database's
// keys, each with its length before it:
//
//	uvarint length, database key without its prefix, uvarint length, stored value
//
// Deleted keys and what is expired are not in it, nor are the store's own entries: whoever makes a store of it writes its own.
// SnapshotFormat counts the changes of this form and of stored keys and values. A store takes no other than its own.
const SnapshotFormat = 1

// maxWireKey is the longest key of an entry: that of a long key.
const maxWireKey = longKeyBytes - 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SnapshotSum is what the bytes of a whole snapshot come to. It goes behind them, so that a snapshot that was cut short or
// damaged on its way is never taken for a whole one.
type SnapshotSum struct {
	Entries int64
	Bytes   int64
	CRC     uint32 // Castagnoli
}

func (s *SnapshotSum) add(p []byte) {
	s.Bytes += int64(len(p))
	s.CRC = crc32.Update(s.CRC, castagnoli, p)
}

// SnapshotError says that what was received is no sound and whole snapshot. Nothing of it is kept.
type SnapshotError struct {
	Entry  int64 // how many entries came before what is wrong
	Reason string
}

// Error says what is wrong and where.
func (e *SnapshotError) Error() string {
	return fmt.Sprintf("snapshot is unsound after %d entries: %s", e.Entry, e.Reason)
}

func appendWireEntry(dst, key, value []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	dst = append(dst, key...)
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// readWireEntry takes the first entry off b; n is 0 when not all of it is there yet. The results share b's memory. A length
// over its limit is an error as soon as it is seen, so a damaged one has nobody wait for gigabytes.
func readWireEntry(b []byte, maxValue int) (key, value []byte, n int, err error) {
	key, n, err = readWireField(b, maxWireKey)
	if n == 0 || err != nil {
		return nil, nil, 0, err
	}
	value, m, err := readWireField(b[n:], maxValue)
	if m == 0 || err != nil {
		return nil, nil, 0, err
	}
	return key, value, n + m, nil
}

func readWireField(b []byte, limit int) (field []byte, n int, err error) {
	size, width := binary.Uvarint(b)
	switch {
	case width < 0 || width > 0 && size > uint64(limit):
		return nil, 0, fmt.Errorf("length %d is over the limit of %d", size, limit)
	case width == 0 && len(b) >= binary.MaxVarintLen64:
		return nil, 0, fmt.Errorf("length of %d bytes has no end", len(b))
	case width == 0 || uint64(len(b)-width) < size:
		return nil, 0, nil
	}
	n = width + int(size)
	return b[width:n:n], n, nil
}

// checkWireEntry says what is wrong with an entry as one of a store with a schema: Badger and the readers take their own
// entries on trust.
func checkWireEntry(schema Schema, key, value []byte) error {
	_, long, err := decodeValue(value)
	if err != nil {
		return err
	}
	switch {
	case len(key) > maxPlainKey && len(key) != maxWireKey:
		return fmt.Errorf("key of %d bytes is neither a plain nor a long one", len(key))
	case (len(key) == maxWireKey) != (long != nil):
		return fmt.Errorf("key of %d bytes has a value of another form", len(key))
	case long != nil && (len(long) <= maxPlainKey || !bytes.Equal(encodeKey(nil, long)[1:], key)):
		return fmt.Errorf("a long key of %d bytes is not the value's", len(long))
	case !schema.timed():
		return nil
	}
	if long != nil {
		key = long
	}
	_, _, _, err = schema.split(key)
	return err
}
