package store

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

// KV is a key-value store partition in a Badger database of its own. Reads may run at any time and from any
// goroutine; Apply has one caller at a time (I3).
//
// Its steps:
//  1. Open judges the directory by its marker, opens the database, compares the identity, checks position and
//     witnesses, and undoes what an unfinished Apply left above the position.
//  2. Apply writes changes at a new timestamp and the position last, then publishes an applied.
//  3. A read pins the newest applied and reads at its timestamp, so it sees all of an Apply or nothing.
//  4. Close refuses new calls, ends scans, waits for running calls and closes the database.
type KV struct {
	id   ID
	dir  string
	opt  Options
	db   *badger.DB
	lock func() error // gives the directory's lock back

	cur atomic.Pointer[applied] // what reads see; swapped by the writer

	gate gate

	spillAsked atomic.Bool // the next Applies are to have the memtables written, see reclaim.go
	spillFloor int64       // what the files of large values came to when that was tried last; of ReclaimSpace alone

	writing atomic.Bool // held for the length of an Apply; guards w
	w       writer

	finishOnce sync.Once
	finishErr  error
}

// Open opens the store partition in a directory, or makes it when the directory is missing or empty. An error that
// is ErrCorrupt means that the store must be removed and rebuilt; *IdentityError that the directory is another's.
func Open(dir string, id ID, o Options) (*KV, error) {
	if err := errors.Join(o.Validate(), id.Validate()); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &KV{id: id, dir: dir, opt: o.withDefaults(), lock: func() error { return nil }}
	s.gate.drained = make(chan struct{}, 1)
	var err error
	if o.InMemory {
		err = s.openDatabase("", true)
	} else {
		err = s.openDir()
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s/%d: %w", id.Store, id.Partition, err)
	}
	return s, nil
}

// ID is the store's identity, with the topic id as far as it is known.
func (s *KV) ID() ID {
	return s.id
}

// Position is the next changelog offset to apply; -1 for a store that never applied anything.
func (s *KV) Position() int64 {
	return s.cur.Load().at.Position
}

// Checkpoint is the position and the input position of what reads see now.
func (s *KV) Checkpoint() Checkpoint {
	return s.cur.Load().at
}

// Close refuses new calls, cuts running scans short (they end with ErrClosed), waits for running calls up to
// Options.DrainTimeout and closes the database. When the bound passes first it returns ErrDrain, and the last
// running call closes the database. Snapshots need not be released first. A second Close does nothing.
func (s *KV) Close() error {
	if !s.gate.close() {
		return nil
	}
	if !s.gate.drain(s.opt.DrainTimeout) {
		if s.gate.abandon() {
			return s.finish()
		}
		return fmt.Errorf("close store %s/%d: %w", s.id.Store, s.id.Partition, ErrDrain)
	}
	return s.finish()
}

// enter lets a call in, or reports that the store is closing. A call that was let in ends with leave.
func (s *KV) enter() bool {
	if s.gate.enter() {
		return true
	}
	s.leave()
	return false
}

func (s *KV) leave() {
	if s.gate.leave() {
		if err := s.finish(); err != nil {
			s.opt.Logger.Error("close store after the drain timeout", slog.Any("error", err))
		}
	}
}

// finish closes the database, once, when no call runs.
func (s *KV) finish() error {
	s.finishOnce.Do(func() {
		var lazy error
		if s.w.moved > 0 && !s.w.torn { // a position written below torn entries would show them
			lazy = s.commitMeta(0, nil)
		}
		s.finishErr = errors.Join(lazy, s.shutDatabase(), s.lock())
	})
	return s.finishErr
}

// shutDatabase closes Badger and, when that went well, says so in the marker.
func (s *KV) shutDatabase() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	if s.opt.InMemory {
		return nil
	}
	m, err := readMarker(s.dir)
	if err != nil || m == nil || m.State != markerOpen {
		return err
	}
	m.State = markerClosed
	if m.Files, err = markFiles(filepath.Join(s.dir, databaseName)); err != nil {
		return err
	}
	return writeMarker(s.dir, *m)
}
