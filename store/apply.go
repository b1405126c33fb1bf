package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

const (
	// maxInflightTxns bounds the Badger transactions of one Apply that are written and not yet acknowledged.
	maxInflightTxns = 8

	// maxLazyMoves bounds the Applies without changes whose position is known in memory only. A crash repeats them.
	maxLazyMoves = 64

	slabBytes = 64 << 10
)

// Change is one write: a put, or a delete. A put with a nil value is a put of an empty value.
type Change struct {
	Key, Value []byte
	Delete     bool
	Timestamp  int64 // of the record, in milliseconds; not kept for a delete
}

// writer is the state of whoever applies; KV.writing guards it.
type writer struct {
	stored       meta       // the newest position entry in the database
	live         []*applied // the newest, and older ones that snapshots or reads may still pin
	witnessBytes int64      // written since the newest witness
	witnessDue   bool       // the next batch begins with a witness
	moved        int        // moves of the position that are not in the database
	torn         bool       // an unfinished Apply may have left entries above the position
}

// Apply makes changes and a new position visible as one step: a read sees all of it or nothing. When it fails,
// nothing is visible and the position is as before; it may be tried again, with the same or other changes. Of several
// changes to a key the last one counts. A position below the store's is a *PositionError. Apply keeps no reference
// to what it is given. Without changes only the position moves, in the database a little later.
func (s *KV) Apply(changes []Change, at Checkpoint) error {
	if !s.enter() {
		return ErrClosed
	}
	defer s.leave()
	if !s.writing.CompareAndSwap(false, true) {
		return ErrTwoWriters
	}
	defer s.writing.Store(false)

	now := s.cur.Load()
	if at.Position < now.at.Position {
		return &PositionError{Have: now.at.Position, Want: at.Position}
	}
	next := now.at.advance(at)
	if len(changes) == 0 && s.w.moved < maxLazyMoves {
		if next.Position != now.at.Position || len(at.Input) > 0 {
			s.w.moved++
			s.publish(&applied{ts: now.ts, at: next})
		}
		return nil
	}
	size, err := s.checkRoom(changes)
	if err != nil {
		return err
	}
	if err := s.undo(); err != nil {
		return fmt.Errorf("undo an unfinished apply: %w", err)
	}
	if err := s.write(changes, size, next); err != nil {
		return fmt.Errorf("apply %d changes at position %d: %w", len(changes), at.Position, err)
	}
	return nil
}

// checkRoom refuses what Badger or the disk cannot take, before anything is written. It returns about how many bytes
// the encoded changes are.
func (s *KV) checkRoom(changes []Change) (size int, err error) {
	maxBytes := s.opt.maxEntryBytes()
	for i := range changes {
		n := encodedValueLen(changes[i].Key, changes[i].Value)
		if n > maxBytes {
			return 0, &SizeError{Index: i, Bytes: n, Max: maxBytes}
		}
		size += n + encodedKeyLen(changes[i].Key)
	}
	if s.opt.InMemory || s.opt.MinFreeBytes < 0 {
		return size, nil
	}
	free, err := s.opt.hooks.freeBytes(s.dir)
	if err != nil {
		return 0, err
	}
	written := int64(size + len(changes)*entryCost)
	if need := s.opt.MinFreeBytes + 2*written; free < need { // once in the log, once in a table
		return 0, fmt.Errorf("%w: %d bytes free, %d needed", ErrNoSpace, free, need)
	}
	return size, nil
}

// write writes changes and position.
func (s *KV) write(changes []Change, size int, next Checkpoint) error {
	return s.commit(&batch{s: s, expect: size}, next, func(b *batch) error {
		for i := range changes {
			if err := b.change(&changes[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// commitMeta writes the current position, and what else fill adds, above a timestamp.
func (s *KV) commitMeta(above uint64, fill func(*batch) error) error {
	return s.commit(&batch{s: s, ts: above + 1, bare: true}, s.cur.Load().at, fill)
}

// commit fills a batch, ends it with the position, and publishes what it wrote. The batch's timestamp is the changelog
// offset + 1, or more when that is not new.
func (s *KV) commit(b *batch, at Checkpoint, fill func(*batch) error) error {
	b.ts = max(b.ts, s.w.stored.ts+1, uint64(at.Position+1))
	b.witness, b.witnessBytes, b.witnessDue = s.w.stored.witness, s.w.witnessBytes, s.w.witnessDue
	b.slots = make(chan struct{}, maxInflightTxns)
	var err error
	if fill != nil {
		err = fill(b)
	}
	if err == nil {
		err = b.finish(at)
	}
	if err != nil {
		b.cancel()
		s.w.torn = true
		return err
	}
	s.w.stored = meta{at: at, ts: b.ts, witness: b.witness}
	s.w.witnessBytes, s.w.witnessDue = b.witnessBytes, b.witnessDue
	s.w.moved = 0
	s.publish(&applied{ts: b.ts, at: at})
	return nil
}

// batch writes entries at one timestamp in as few Badger transactions as they fit in. Each of these is atomic, all
// together are not; the position goes into the last one, which is sent when all others are acknowledged: sent sooner,
// it could be written although an earlier one failed. (Badger's WriteBatch does send sooner.)
type batch struct {
	s    *KV
	ts   uint64
	bare bool // writes no witnesses

	txn    *badger.Txn // the one being filled, or nil
	txns   int         // begun so far
	expect int         // bytes of the encoded keys and values to come, about
	slab   []byte      // room for them

	witness      uint64
	witnessBytes int64
	witnessDue   bool

	slots   chan struct{} // one per transaction in flight
	pending sync.WaitGroup
	failure atomic.Pointer[error] // the first of those in flight
}

// change adds a user's write.
func (b *batch) change(c *Change) error {
	key := encodeKey(b.room(encodedKeyLen(c.Key)), c.Key)
	if c.Delete {
		return b.add(key, nil, true)
	}
	return b.add(key, encodeValue(b.room(encodedValueLen(c.Key, c.Value)), c.Key, c.Value, c.Timestamp), false)
}

func (b *batch) set(key, value []byte) error {
	return b.add(key, value, false)
}

func (b *batch) delete(key []byte) error {
	return b.add(key, nil, true)
}

// add places an entry, and a witness before it when one is due. It keeps key and value.
func (b *batch) add(key, value []byte, del bool) error {
	if !b.bare && (b.witnessDue || b.witnessBytes >= b.s.opt.witnessInterval()) {
		b.witness++
		b.witnessBytes, b.witnessDue = 0, false
		if err := b.place(witnessKey(b.witness), witnessValue(b.witness), false); err != nil {
			return err
		}
	}
	b.witnessBytes += int64(len(key) + len(value) + entryCost)
	return b.place(key, value, del)
}

// place puts an entry into the current transaction, or into a new one when that is full.
func (b *batch) place(key, value []byte, del bool) error {
	b.begin()
	err := b.put(key, value, del)
	if !errors.Is(err, badger.ErrTxnTooBig) {
		return err
	}
	if err := b.send(); err != nil {
		return err
	}
	b.begin()
	return b.put(key, value, del)
}

func (b *batch) put(key, value []byte, del bool) error {
	if del {
		return b.txn.Delete(key)
	}
	return b.txn.Set(key, value)
}

// begin makes sure that there is a transaction to fill.
func (b *batch) begin() {
	if b.txn == nil {
		b.txn = b.s.db.NewTransactionAt(b.ts, true)
		b.txns++
	}
}

// send commits the current transaction without waiting for it, except when too many are in flight.
func (b *batch) send() error {
	if err := b.s.opt.hooks.beforeCommit(b.txns); err != nil {
		return err
	}
	b.slots <- struct{}{}
	b.pending.Add(1)
	txn, n := b.txn, b.txns
	b.txn = nil
	err := txn.CommitAt(b.ts, func(err error) {
		if err = b.s.opt.hooks.acknowledged(n, err); err != nil {
			b.failure.CompareAndSwap(nil, &err)
		}
		<-b.slots
		b.pending.Done()
	})
	if err != nil {
		return err
	}
	return b.failed()
}

// finish adds the position and commits the last transaction.
func (b *batch) finish(at Checkpoint) error {
	if err := b.place(positionKey, encodeMeta(meta{at: at, ts: b.ts, witness: b.witness}), false); err != nil {
		return err
	}
	b.pending.Wait()
	if err := b.failed(); err != nil {
		return err
	}
	if err := b.s.opt.hooks.beforeCommit(b.txns); err != nil {
		return err
	}
	return b.s.opt.hooks.acknowledged(b.txns, b.txn.CommitAt(b.ts, nil))
}

// cancel drops the current transaction and waits for those in flight.
func (b *batch) cancel() {
	if b.txn != nil {
		b.txn.Discard()
	}
	b.pending.Wait()
}

func (b *batch) failed() error {
	if err := b.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// room returns an empty slice with a capacity of n.
func (b *batch) room(n int) []byte {
	if n > cap(b.slab)-len(b.slab) {
		b.slab = make([]byte, 0, max(n, min(b.expect, slabBytes)))
	}
	used := len(b.slab)
	b.slab = b.slab[:used+n]
	return b.slab[used:used:len(b.slab)]
}
