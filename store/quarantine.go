package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// reasonName is the file in a quarantined directory that says why it is there.
const reasonName = "reason.txt"

// quarantineTime begins the name of a quarantined directory, so that names sort by time. UTC, to the millisecond.
const quarantineTime = "20060102T150405.000Z"

// Quarantine moves a store's directory that must not be used into another folder of the same file system, for somebody to
// look at, and says where it is now: under the time, the name and, inside, a file with the reason. At most keep directories stay
// there; the oldest are removed first, all of them when keep is 0. Nothing is lost that the changelog does not have. A
// directory that does not exist is no error and gives an empty path; one that is open is ErrLocked. When it cannot be moved
// it is removed.
func Quarantine(dir, folder, name, reason string, keep int, now time.Time) (moved string, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if keep > 0 {
		if moved, err = moveAside(dir, folder, name, reason, now); err != nil && errors.Is(err, ErrLocked) {
			return "", fmt.Errorf("quarantine store: %w", err)
		}
	}
	if moved == "" {
		if removeErr := Remove(dir); removeErr != nil {
			return "", errors.Join(err, removeErr)
		}
	}
	if err := keepNewest(folder, keep); err != nil {
		return moved, fmt.Errorf("quarantine store: %w", err)
	}
	return moved, nil
}

// moveAside moves the directory under its lock.
func moveAside(dir, folder, name, reason string, now time.Time) (moved string, err error) {
	unlock, err := lockDir(dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	target := filepath.Join(folder, now.UTC().Format(quarantineTime)+"-"+name)
	if err := os.Rename(dir, target); err != nil {
		return "", err
	}
	// Best effort: on a full disk there is no room for it, and the move stands.
	_ = os.WriteFile(filepath.Join(target, reasonName), []byte(reason+"\n"), 0o600)
	return target, nil
}

// keepNewest removes all but the newest directories.
func keepNewest(folder string, keep int) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if stamp, _, ok := strings.Cut(e.Name(), "-"); ok && e.IsDir() {
			if _, err := time.Parse(quarantineTime, stamp); err == nil {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names[:max(0, len(names)-keep)] {
		errs = append(errs, os.RemoveAll(filepath.Join(folder, name)))
	}
	return errors.Join(errs...)
}

// FreeBytes is the space that is left on a directory's file system.
func FreeBytes(dir string) (int64, error) { return freeBytes(dir) }

// SizeBytes is the size of a directory's file system.
func SizeBytes(dir string) (int64, error) { return sizeBytes(dir) }
