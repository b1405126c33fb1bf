package store

import (
	"errors"
	"fmt"

	"github.com/iqgate/iqgate/fault"
)

// maxLazyMoves bounds the Applies without changes whose position is known in memory only. A crash repeats them.
const maxLazyMoves = 64

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
	purge        purger
	spilling     int  // see reclaim.go
	torn         bool // an unfinished Apply may have left entries above the position
}

// Apply makes changes and a new position visible as one step: a read sees all of it or nothing. When it fails,
// nothing is visible and the position is as before; it may be tried again, with the same or other changes. Of several
// changes to a key the last one counts. A position below the store's is a *PositionError. Apply keeps no reference
// to what it is given. Changes that are late for
// the store's retention are left out (Schema.Admit, in the order given). Without changes only the position moves, in the database a little later.
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
	schema := s.id.Schema
	for i := range changes {
		if err := schema.CheckChange(&changes[i]); err != nil {
			return fmt.Errorf("apply change %d: %w", i, err)
		}
		next.StreamTime, _ = schema.Admit(next.StreamTime, changes[i].Key)
	}
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
	streamTime := s.cur.Load().at.StreamTime
	purge := s.w.purge
	err := s.commit(&batch{s: s, expect: size}, next, func(b *batch) error {
		if err := purge.run(s, b, len(changes)); err != nil { // first: what it deletes may be put again below
			return fmt.Errorf("purge: %w", err)
		}
		for i := range changes {
			var kept bool
			if streamTime, kept = s.id.Schema.Admit(streamTime, changes[i].Key); !kept {
				continue
			}
			purge.wrote(s.id.Schema, changes[i].Key)
			if err := b.change(&changes[i]); err != nil {
				return err
			}
		}
		return s.spill(b)
	})
	if err != nil {
		purge = purger{}
	}
	s.w.spilling = max(0, s.w.spilling-1) // also of a failed Apply: it is asked for again
	s.w.purge = purge
	return err
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
	if fault.PositionBeforeData {
		err = errors.Join(b.place(positionKey, encodeMeta(meta{at: at, ts: b.ts, witness: b.witness}), false), b.send())
	}
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
