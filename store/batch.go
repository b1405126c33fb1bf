package store

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

const (
	// maxInflightTxns bounds the Badger transactions of one Apply that are written and not yet acknowledged.
	maxInflightTxns = 8

	slabBytes = 64 << 10
)

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
