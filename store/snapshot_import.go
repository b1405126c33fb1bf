package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/ristretto/v2/z"
)

const (
	// importTableBytes is about how large the tables are that an import writes. Up to 16 of them may wait for the disk.
	importTableBytes = 4 << 20
	// importBatchBytes are handed to Badger at a time.
	importBatchBytes = 1 << 20
	// badgerGrowth is how much larger than the base table size Badger's StreamWriter makes its tables.
	badgerGrowth = 32
)

// An Import makes a store of the snapshot of another one. Its steps:
//
//  1. NewImport makes a database in a directory of its own, whose marker says that it is half made: Open throws such away.
//  2. Write takes the bytes of an Export, cut anywhere, checks them entry by entry, and has Badger's StreamWriter put them
//     into tables, which are on disk before they are listed.
//  3. Commit compares what came with what was sent, writes identity and position, closes the database, and only then, when
//     everything is on disk, says in the marker that it is a store. Before that there is no position to be trusted (I2).
//  4. Adopt puts the directory into the place of another.
//
// Each table is a stream of its own to the StreamWriter, because only the end of a stream tells of a table that could not be
// written; in the middle of one Badger panics. It is for one goroutine, and ends with Commit or Abort.
type Import struct {
	s       *KV
	sw      *badger.StreamWriter
	version uint64 // of all entries

	rest  []byte // of what was written: an entry that is not complete
	last  []byte // the key of the newest entry
	begun bool
	sum   SnapshotSum

	batch      *z.Buffer // entries for the StreamWriter
	kv         pb.KV
	stream     uint32
	tableBytes int  // in the current stream
	flushed    bool // the StreamWriter has ended
	closed     bool // the database is
	over       bool // nothing is left to abort
}

// NewImport begins a store in a directory that has none: it is missing, or holds what an earlier import left. The store will
// have an identity and be at a checkpoint. In memory there is no import.
func NewImport(dir string, id ID, at Checkpoint, o Options) (*Import, error) {
	errs := []error{o.Validate(), id.Validate()}
	if o.InMemory {
		errs = append(errs, errors.New("Options.InMemory is true, want a directory"))
	}
	if at.Position < 0 {
		errs = append(errs, fmt.Errorf("Checkpoint.Position is %d, want 0 or more", at.Position))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("import store: %w", err)
	}
	s := &KV{id: id, dir: dir, opt: o.withDefaults(), lock: func() error { return nil }}
	s.gate.drained = make(chan struct{}, 1)
	version := uint64(at.Position) + 1
	s.w = writer{stored: meta{at: newCheckpoint, ts: version}, witnessDue: true}
	s.cur.Store(&applied{ts: version, at: at})
	im := &Import{s: s, version: version}
	if err := im.open(); err != nil {
		return nil, fmt.Errorf("import store %s/%d: %w", id.Store, id.Partition, err)
	}
	return im, nil
}

// open makes the database, or leaves nothing open.
func (im *Import) open() (err error) {
	s := im.s
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
	prev, err := readMarker(s.dir)
	if err != nil {
		return err
	}
	if prev != nil && prev.State != markerNew && prev.State != markerRemoving {
		return fmt.Errorf("directory %s holds a store", s.dir)
	}
	folder := filepath.Join(s.dir, databaseName)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := writeMarker(s.dir, marker{Format: markerFormat, State: markerNew, Boot: s.opt.hooks.bootID()}); err != nil {
		return err
	}
	if s.db, err = badger.OpenManaged(s.opt.badger(folder).WithBaseTableSize(importTableBytes / badgerGrowth)); err != nil {
		return openError(err)
	}
	im.sw = s.db.NewStreamWriter()
	if err := im.sw.PrepareIncremental(); err != nil {
		im.sw.Cancel()
		return errors.Join(err, s.db.Close())
	}
	im.batch = z.NewBuffer(importBatchBytes, "store.Import")
	return nil
}

// Write takes the next bytes of a snapshot. After an error only Abort may follow: a *SnapshotError says that the bytes are
// wrong, ErrNoSpace that the disk is full.
func (im *Import) Write(p []byte) (int, error) {
	im.sum.add(p)
	b := p
	if len(im.rest) > 0 {
		im.rest = append(im.rest, p...)
		b = im.rest
	}
	for {
		key, value, n, err := readWireEntry(b, im.s.opt.maxEntryBytes())
		if err != nil {
			return 0, im.unsound(err.Error())
		}
		if n == 0 {
			break
		}
		if err := im.add(key, value); err != nil {
			return 0, err
		}
		b = b[n:]
	}
	im.rest = append(im.rest[:0], b...) // b may lie within it
	return len(p), nil
}

// add checks an entry and hands it on.
func (im *Import) add(key, value []byte) error {
	if im.begun && bytes.Compare(key, im.last) <= 0 {
		return im.unsound("its keys are not in order")
	}
	if err := checkWireEntry(im.s.id.Schema, key, value); err != nil {
		return im.unsound(err.Error())
	}
	im.begun = true
	im.last = append(im.last[:0], key...)
	im.sum.Entries++

	im.kv.Key = append(append(im.kv.Key[:0], prefixData), key...)
	im.kv.Value, im.kv.Version, im.kv.StreamId, im.kv.StreamDone = value, im.version, im.stream, false
	badger.KVToBuffer(&im.kv, im.batch)
	im.tableBytes += len(key) + len(value) + entryOverhead
	if im.tableBytes >= importTableBytes*3/4 { // below what Badger itself takes for a full table
		return im.endTable()
	}
	if im.batch.LenNoPadding() >= importBatchBytes {
		return im.flush()
	}
	return nil
}

// entryOverhead is about what a table holds of an entry besides key and value.
const entryOverhead = 24

// endTable ends the current stream, and with it its table.
func (im *Import) endTable() error {
	if im.tableBytes > 0 {
		badger.KVToBuffer(&pb.KV{StreamId: im.stream, StreamDone: true}, im.batch)
		im.stream++
		im.tableBytes = 0
	}
	return im.flush()
}

func (im *Import) flush() error {
	if im.batch.IsEmpty() {
		return nil
	}
	if err := im.checkRoom(); err != nil {
		return err
	}
	if err := im.sw.Write(im.batch); err != nil {
		return fmt.Errorf("import store %s/%d: %w", im.s.id.Store, im.s.id.Partition, err)
	}
	im.batch.Reset()
	return nil
}

// checkRoom refuses what the disk cannot take: tables are written through memory maps, and a disk that is full to the last
// block kills the process.
func (im *Import) checkRoom() error {
	if im.s.opt.MinFreeBytes < 0 {
		return nil
	}
	free, err := im.s.opt.hooks.freeBytes(im.s.dir)
	if err != nil {
		return err
	}
	if need := im.s.opt.MinFreeBytes + 2*importTableBytes + 2*int64(im.batch.LenNoPadding()); free < need {
		return fmt.Errorf("%w: %d bytes free, %d needed", ErrNoSpace, free, need)
	}
	return nil
}

// Sum is what all that was written comes to so far.
func (im *Import) Sum() SnapshotSum { return im.sum }

// Commit ends the import with what the other side says that all of it came to. When it returns nil the directory holds a
// store that is closed and on disk; after an error only Abort may follow.
func (im *Import) Commit(sent SnapshotSum) error {
	if len(im.rest) > 0 {
		return im.unsound("it ends in the middle of an entry")
	}
	if sent != im.sum {
		return im.unsound(fmt.Sprintf("%d entries and %d bytes (sum %08x) were sent, %d entries and %d bytes (sum %08x) arrived",
			sent.Entries, sent.Bytes, sent.CRC, im.sum.Entries, im.sum.Bytes, im.sum.CRC))
	}
	if err := im.finish(); err != nil {
		return fmt.Errorf("import store %s/%d: %w", im.s.id.Store, im.s.id.Partition, err)
	}
	return nil
}

func (im *Import) finish() error {
	s := im.s
	if err := im.endTable(); err != nil {
		return err
	}
	im.flushed = true
	if err := im.sw.Flush(); err != nil {
		return err
	}
	identity, err := encodeID(s.id)
	if err != nil {
		return err
	}
	if err := s.commitMeta(im.version, func(b *batch) error { return b.set(identityKey, identity) }); err != nil {
		return err
	}
	if err := im.shut(); err != nil {
		return err
	}
	if err := syncDir(filepath.Join(s.dir, databaseName)); err != nil {
		return err
	}
	m := opened(nil, s.opt.hooks.bootID(), s.opt.SyncWrites)
	m.State = markerClosed
	if m.Files, err = markFiles(filepath.Join(s.dir, databaseName)); err != nil {
		return err
	}
	if err := writeMarker(s.dir, m); err != nil {
		return err
	}
	im.over = true
	return s.lock()
}

// shut closes the database, once; the directory stays locked.
func (im *Import) shut() error {
	if im.closed {
		return nil
	}
	im.closed = true
	return errors.Join(im.s.db.Close(), im.batch.Release())
}

// Abort ends the import and removes what it has made. After a Commit that went well it does nothing.
func (im *Import) Abort() error {
	if im.over {
		return nil
	}
	im.over = true
	if !im.flushed {
		im.sw.Cancel()
	}
	return errors.Join(im.shut(), im.s.lock(), Remove(im.s.dir))
}

func (im *Import) unsound(reason string) error {
	return &SnapshotError{Entry: im.sum.Entries, Reason: reason}
}

// Adopt puts a store that Commit has made into the place of the one in another directory, which must be closed and is
// removed first; it may be missing. A crash in between leaves the store in one place or in none.
func Adopt(from, dir string) error {
	m, err := readMarker(from)
	if err == nil && (m == nil || m.State != markerClosed) {
		err = errors.New("it holds no store that is complete and closed")
	}
	if err != nil {
		return fmt.Errorf("adopt store of %s: %w", from, err)
	}
	if err := Remove(dir); err != nil {
		return fmt.Errorf("adopt store of %s: %w", from, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("adopt store of %s: %w", from, err)
	}
	if err := os.Rename(from, dir); err != nil {
		return fmt.Errorf("adopt store of %s: %w", from, err)
	}
	return errors.Join(syncDir(filepath.Dir(dir)), syncDir(filepath.Dir(from)))
}
