package store

import (
	"io"

	"github.com/dgraph-io/badger/v4"
)

// An Export is a state of a store on its way to another node. Its steps:
//
//  1. Export pins the newest applied state: what is applied meanwhile is not in it, and its versions are not discarded.
//  2. Next returns the entries in portions. Each portion is a short read of its own, so neither Close of the store nor
//     compaction waits for whoever takes them slowly.
//  3. At the end Sum says what all of it comes to. Release unpins the state.
//
// It is for one goroutine.
type Export struct {
	s    *KV
	st   *applied
	from []byte // the database's key to go on at
	sum  SnapshotSum
	done bool
	gone bool
}

// Export begins an export of the last applied state. It must be released.
func (s *KV) Export() (*Export, error) {
	if !s.enter() {
		return nil, ErrClosed
	}
	defer s.leave()
	return &Export{s: s, st: s.pin(), from: []byte{prefixData}}, nil
}

// ID is the identity of the store.
func (e *Export) ID() ID { return e.s.id }

// Checkpoint is how far the state had come that is exported. It is shared and must not be written to.
func (e *Export) Checkpoint() Checkpoint { return e.st.at }

// Sum is what all that Next has returned comes to.
func (e *Export) Sum() SnapshotSum { return e.sum }

// Release ends the export; a second one does nothing. It may be called after the store is closed.
func (e *Export) Release() {
	if !e.gone {
		e.gone = true
		e.st.pins.Add(-1)
	}
}

// Next appends the next portion to buf: entries until it has grown by about size bytes, or one that is larger. At the end
// it is io.EOF; after Close of the store ErrClosed.
func (e *Export) Next(buf []byte, size int) ([]byte, error) {
	switch {
	case e.gone:
		return buf, ErrReleased
	case e.done:
		return buf, io.EOF
	case !e.s.enter():
		return buf, ErrClosed
	}
	defer e.s.leave()
	begin := len(buf)
	txn := e.s.db.NewTransactionAt(e.st.ts, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{prefixData}})
	defer it.Close()
	for it.Seek(e.from); it.Valid(); it.Next() {
		if len(buf)-begin >= size {
			e.from = append(e.from[:0], it.Item().Key()...)
			break
		}
		if e.s.gate.closing.Load() {
			return buf[:begin], ErrClosed
		}
		var err error
		if buf, err = e.add(buf, it.Item()); err != nil {
			return buf[:begin], err
		}
	}
	e.done = !it.Valid()
	if len(buf) == begin {
		return buf, io.EOF
	}
	e.sum.add(buf[begin:])
	return buf, nil
}

// add appends an entry, unless it is expired.
func (e *Export) add(buf []byte, item *badger.Item) ([]byte, error) {
	key, schema := item.Key()[1:], e.s.id.Schema
	err := item.Value(func(stored []byte) error {
		_, long, err := decodeValue(stored)
		if err != nil {
			return corruptf("value at timestamp %d: %w", item.Version(), err)
		}
		whole := key
		if long != nil {
			whole = long
		}
		if schema.Expired(e.st.at.StreamTime, whole) {
			return nil
		}
		buf = appendWireEntry(buf, key, stored)
		e.sum.Entries++
		return nil
	})
	return buf, err
}
