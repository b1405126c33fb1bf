package node

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/iqgate/iqgate/store"
)

// Stores that must not be used are kept for somebody to look at, a few of them and only where there is room.
const (
	quarantineDir  = "quarantine" // below the state directory
	quarantineKeep = 3
)

// brokenStore is why a store has to be dropped and rebuilt, or cannot be opened.
type brokenStore struct {
	reason string
	// damaged says that what is on disk is not what was written, and worth a look. What only does not fit its changelog any
	// more is not.
	damaged bool
}

// unfit says why a directory that was opened with err cannot be used; nil when that is not known to be so.
func unfit(err error) *brokenStore {
	var identity *store.IdentityError
	switch {
	case errors.As(err, &identity):
		return &brokenStore{reason: err.Error(), damaged: !identity.OnlyTopicID()}
	case errors.Is(err, store.ErrCorrupt):
		return &brokenStore{reason: err.Error(), damaged: true}
	}
	return nil
}

// outside says why a store at a position cannot go on in a changelog, or nil.
func outside(position, start, end int64) *brokenStore {
	switch {
	case position >= 0 && position < start:
		return &brokenStore{reason: fmt.Sprintf("checkpoint %d < log start %d", position, start)}
	case position > end:
		return &brokenStore{reason: fmt.Sprintf("checkpoint %d > log end %d", position, end)}
	}
	return nil
}

// clear makes room for a store that is built anew: a damaged one is put into quarantine, or removed where the disk is short
// of room; any other is removed. The store is closed.
func (r *replica) clear(b *brokenStore) error {
	if !b.damaged {
		return store.Remove(r.dir)
	}
	keep := quarantineKeep
	if r.set.diskShort() {
		keep = 0
	}
	name := fmt.Sprintf("%s-%d", r.id.Store, r.id.Partition)
	moved, err := store.Quarantine(r.dir, filepath.Join(r.set.dir, quarantineDir), name, b.reason, keep, time.Now())
	if moved != "" {
		r.set.log.Warn("a damaged store is kept in quarantine", slog.String("store", r.id.String()), slog.String("directory", moved), slog.String("reason", b.reason))
	}
	return err
}

// quarantineRoom is what must be free to keep a damaged store.
const quarantineRoom = 512 << 20

// diskShort says whether the disk has too little room to keep what is of no use.
func (s *replicaSet) diskShort() bool {
	free, err := store.FreeBytes(s.dir)
	return err != nil || free < quarantineRoom
}

// damaged says that the store of a running task was found to be damaged, by a read of whoever: the task must let go of it
// before it can be rebuilt.
func (w *worker) damaged() error {
	for _, t := range w.active {
		if t.stage != stageRunning {
			continue
		}
		if err := t.damaged(); err != nil {
			return err
		}
	}
	return nil
}

func (t *activeTask) damaged() error {
	for _, s := range t.stores {
		if b := s.replica.broken.Load(); b != nil {
			return fmt.Errorf("store %s must be rebuilt: %s", s.info.id, b.reason)
		}
	}
	return nil
}

// taskReader is a store as its task's overlay reads it: what it finds damaged is rebuilt.
type taskReader struct {
	store.Reader
	replica *replica
}

func (r taskReader) heed(err error) {
	if errors.Is(err, store.ErrCorrupt) {
		r.replica.Damaged(err)
	}
}

// Get implements store.Reader.
func (r taskReader) Get(key []byte) (store.Value, bool, error) {
	v, found, err := r.Reader.Get(key)
	r.heed(err)
	return v, found, err
}

// Range implements store.Reader.
func (r taskReader) Range(from, to []byte, reverse bool) iter.Seq2[store.Entry, error] {
	return r.Scan(store.Scan{From: from, To: to, Reverse: reverse})
}

// Scan implements store.Reader.
func (r taskReader) Scan(sc store.Scan) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range r.Reader.Scan(sc) {
			r.heed(err)
			if !yield(e, err) {
				return
			}
		}
	}
}
