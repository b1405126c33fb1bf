package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A store's directory holds the database, a lock file and the marker, a small file that says what the database
// must be like. It is what tells a new directory from one whose data were lost.
const (
	databaseName = "db"
	markerName   = "store.json"
	lockName     = "lock"

	markerFormat = 1
)

// markerState says how far a directory has come.
type markerState string

const (
	markerNew      markerState = "new"      // the database may be half made; nothing was applied to it
	markerOpen     markerState = "open"     // in use, or its process died
	markerClosed   markerState = "closed"   // closed, everything on disk
	markerRemoving markerState = "removing" // Remove began and may not have ended
)

type marker struct {
	Format int         `json:"format"`
	State  markerState `json:"state"`
	Boot   string      `json:"boot_id"` // of the machine, when the store was opened
	Synced bool        `json:"synced"`  // everything since the last clean close was written with SyncWrites

	// Files are the database's files when it was opened or closed last, by name; see inspect.go. Nil when nobody has looked.
	Files map[string]fileMark `json:"files,omitempty"`
}

// openDecision is what Open does with a directory.
type openDecision struct {
	wipe  bool // throw away what is in the database's folder
	fresh bool // make a new store
}

// decideOpen judges a directory by its marker (nil: there is none), whether there is a database, and the boot id now
// (empty: unknown).
func decideOpen(m *marker, hasDatabase bool, boot string) (openDecision, error) {
	if m == nil {
		if hasDatabase {
			return openDecision{}, corruptf("there is a database but no %s beside it", markerName)
		}
		return openDecision{fresh: true}, nil
	}
	if m.Format != markerFormat {
		return openDecision{}, corruptf("%s has format %d, want %d", markerName, m.Format, markerFormat)
	}
	switch m.State {
	case markerNew, markerRemoving:
		return openDecision{fresh: true, wipe: true}, nil
	case markerOpen, markerClosed:
	default:
		return openDecision{}, corruptf("%s has the unknown state %q", markerName, m.State)
	}
	if !hasDatabase {
		return openDecision{}, corruptf("%s says that there is a database, but there is none", markerName)
	}
	// Without SyncWrites a dead machine may have lost an older log file and kept a newer one, with the position.
	if m.State == markerOpen && !m.Synced && (boot == "" || boot != m.Boot) {
		return openDecision{}, corruptf("not closed before a reboot (boot id %q, now %q)", m.Boot, boot)
	}
	return openDecision{}, nil
}

// opened is the marker of a store that is now in use, given the marker found.
func opened(prev *marker, boot string, syncWrites bool) marker {
	wasSynced := prev == nil || prev.State != markerOpen || prev.Synced
	m := marker{Format: markerFormat, State: markerOpen, Boot: boot, Synced: syncWrites && wasSynced}
	if prev != nil {
		m.Files = prev.Files
	}
	return m
}

// readMarker returns nil when there is no marker.
func readMarker(dir string) (*marker, error) {
	b, err := os.ReadFile(filepath.Join(dir, markerName)) //nolint:gosec // the caller names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read marker: %w", err)
	}
	var m marker
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, corruptf("%s: %w", markerName, err)
	}
	return &m, nil
}

// writeMarker replaces the marker; it is on disk when writeMarker returns.
func writeMarker(dir string, m marker) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write marker: %w", err)
	}
	path := filepath.Join(dir, markerName)
	if err := writeSynced(path+".tmp", append(b, '\n')); err != nil {
		return fmt.Errorf("write marker: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil { //nolint:gosec,nolintlint // the caller names the directory; found only with a cold cache
		return fmt.Errorf("write marker: %w", err)
	}
	return syncDir(dir)
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // the caller names the directory
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // the caller names the directory
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
