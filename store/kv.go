package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

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

// openDir opens the database in the store's directory under its lock and marker.
func (s *KV) openDir() (err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if s.lock, err = lockDir(s.dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.lock())
		}
	}()
	folder := filepath.Join(s.dir, databaseName)
	boot := s.opt.hooks.bootID()
	prev, err := readMarker(s.dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	decision, err := decideOpen(prev, len(entries) > 0, boot)
	if err != nil {
		return err
	}
	if decision.wipe {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	if decision.fresh {
		prev = nil
		err = writeMarker(s.dir, marker{Format: markerFormat, State: markerNew, Boot: boot})
	} else {
		err = errors.Join(removeEmptyLogs(folder), writeMarker(s.dir, opened(prev, boot, s.opt.SyncWrites)))
	}
	if err != nil {
		return err
	}
	if err := s.openDatabase(folder, decision.fresh); err != nil {
		return err
	}
	if decision.fresh {
		if err := writeMarker(s.dir, opened(prev, boot, s.opt.SyncWrites)); err != nil {
			return errors.Join(err, s.db.Close())
		}
	}
	return nil
}

// openDatabase opens Badger and makes the store ready, or leaves nothing open.
func (s *KV) openDatabase(folder string, fresh bool) error {
	db, err := badger.OpenManaged(s.opt.badger(folder))
	if err != nil {
		return openError(err)
	}
	s.db = db
	if fresh {
		err = s.create()
	} else {
		err = s.load()
	}
	if err != nil {
		return errors.Join(err, s.shutDatabase())
	}
	return nil
}

// openError tells what the machine lacks from what the database lacks.
func openError(err error) error {
	for _, lack := range []error{fs.ErrPermission, syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, lack) {
			return fmt.Errorf("open database: %w", err)
		}
	}
	return corruptf("open database: %w", err)
}

// create writes the entries that a new store has.
func (s *KV) create() error {
	identity, err := encodeID(s.id)
	if err != nil {
		return err
	}
	s.cur.Store(&applied{at: Checkpoint{Position: -1}})
	s.w = writer{stored: meta{at: Checkpoint{Position: -1}}, witnessDue: true}
	return s.commitMeta(0, func(b *batch) error { return b.set(identityKey, identity) })
}

// load takes identity and position from the database and undoes what lies above the position.
func (s *KV) load() error {
	txn := s.db.NewTransactionAt(math.MaxUint64, false) // the newest position entry was the last write of its Apply
	defer txn.Discard()
	b, _, err := getMeta(txn, identityKey)
	if err != nil {
		return err
	}
	have, err := decodeID(b)
	if err != nil {
		return err
	}
	want := s.id
	if s.id, err = want.check(have); err != nil {
		return err
	}
	b, version, err := getMeta(txn, positionKey)
	if err != nil {
		return err
	}
	m, err := decodeMeta(b)
	if err != nil {
		return corruptf("%w", err)
	}
	if m.at.Position < -1 || m.ts != version || m.at.Position >= 0 && m.ts <= uint64(m.at.Position) {
		return corruptf("position %d at timestamp %d, entry written at %d", m.at.Position, m.ts, version)
	}
	if err := checkWitnesses(s.db, m.witness, m.ts); err != nil {
		return err
	}
	s.w = writer{stored: m, torn: s.db.MaxVersion() > m.ts, witnessDue: true}
	s.publish(&applied{ts: m.ts, at: m.at})
	if err := s.undo(); err != nil {
		return err
	}
	if s.id.TopicID == have.TopicID {
		return nil
	}
	identity, err := encodeID(s.id)
	if err != nil {
		return err
	}
	return s.commitMeta(0, func(b *batch) error { return b.set(identityKey, identity) })
}

// getMeta returns one of the store's own entries and the timestamp at which it was written.
func getMeta(txn *badger.Txn, key []byte) (value []byte, version uint64, err error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, 0, corruptf("the database opened without its entry %q", key)
	}
	if err != nil {
		return nil, 0, corruptf("entry %q: %w", key, err)
	}
	value, err = item.ValueCopy(nil)
	if err != nil {
		return nil, 0, corruptf("entry %q: %w", key, err)
	}
	return value, item.Version(), nil
}

// removeEmptyLogs removes the empty files that a kill in the middle of a rotation leaves: with one of them Badger
// does not open (badger#2207). They hold nothing.
func removeEmptyLogs(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".mem") && !strings.HasSuffix(e.Name(), ".vlog") {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Size() == 0 {
			if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
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
	return writeMarker(s.dir, *m)
}

// Remove deletes the store in a directory, whatever state it is in. One that does not exist is no error; one that
// is open is ErrLocked, and one with files of others in it is left with these.
func Remove(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return fmt.Errorf("remove store: %w", err)
	}
	if err := writeMarker(dir, marker{Format: markerFormat, State: markerRemoving}); err != nil {
		return errors.Join(fmt.Errorf("remove store: %w", err), unlock())
	}
	err = os.RemoveAll(filepath.Join(dir, databaseName))
	for _, name := range []string{markerName + ".tmp", markerName, lockName} {
		if rmErr := os.Remove(filepath.Join(dir, name)); err == nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = rmErr
		}
	}
	if err == nil {
		err = os.Remove(dir)
	}
	if err = errors.Join(err, unlock()); err != nil {
		return fmt.Errorf("remove store: %w", err)
	}
	return nil
}

// gate counts the calls inside a store, so that Close can wait for them: a read on a closed Badger database is a
// SIGSEGV. A refused call touches the count and nothing else.
type gate struct {
	inside    atomic.Int64
	closing   atomic.Bool
	abandoned atomic.Bool   // Close gave up waiting; the last call out closes the database
	drained   chan struct{} // of size 1: the count reached zero after closing
}

// enter counts a call and reports whether it may go on; it has to leave in either case.
func (g *gate) enter() bool {
	g.inside.Add(1)
	return !g.closing.Load()
}

// leave reports whether the caller must close the database.
func (g *gate) leave() bool {
	if g.inside.Add(-1) != 0 || !g.closing.Load() {
		return false
	}
	select {
	case g.drained <- struct{}{}:
	default:
	}
	return g.abandoned.Load()
}

func (g *gate) close() bool {
	return g.closing.CompareAndSwap(false, true)
}

// drain waits until no call is inside, up to a bound.
func (g *gate) drain(bound time.Duration) bool {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	for g.inside.Load() != 0 {
		select {
		case <-g.drained:
		case <-timer.C:
			return g.inside.Load() == 0
		}
	}
	return true
}

// abandon leaves the closing to the last call; it reports whether that has already gone.
func (g *gate) abandon() bool {
	g.abandoned.Store(true)
	return g.inside.Load() == 0
}
