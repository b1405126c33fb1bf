package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
)

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
		if err = removeEmptyLogs(folder); err == nil {
			err = inspect(folder, prev)
		}
		if err == nil {
			err = writeMarker(s.dir, opened(prev, boot, s.opt.SyncWrites))
		}
	}
	if err != nil {
		return err
	}
	if err := s.openDatabase(folder, decision.fresh); err != nil {
		return err
	}
	// From here on the files are known: after a kill only what was written since has to be read.
	now := opened(prev, boot, s.opt.SyncWrites)
	if now.Files, err = markTables(folder); err == nil {
		err = writeMarker(s.dir, now)
	}
	if err != nil {
		return errors.Join(err, s.db.Close())
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
