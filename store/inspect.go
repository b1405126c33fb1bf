package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sync/errgroup"
)

// Badger trusts its files. It ends the process when a table's footer makes no sense, takes a log or manifest that is
// cut short for one that ended there and deletes the tables that came later, and answers "no such key" when a block is
// damaged. So each file is looked at before Badger opens it:
//
//   - The manifest must be readable to its last byte.
//   - Each table that it names must be there, with a sound index; and with sound blocks, unless the marker knows the file
//     as it is now (name, size, time, end) from an earlier look or as one that this program wrote.
//   - Each log of a memtable but the newest must be whole: Badger had begun another one. Of the newest a kill may
//     have cut the end off, and what is left is an older state, with its position.
//   - A store that was closed has exactly the files that the marker lists, at their sizes.
//
// So what is read at an Open is small after an orderly end, and what was written since the Open before after a kill. A
// file that goes bad without a trace in its size or time is found by Scrub.
const (
	manifestName = badger.ManifestFilename
	tableSuffix  = ".sst"
	logSuffix    = ".mem"
	valueSuffix  = ".vlog"

	maxInspecting = 2 // tables read at a time; the disk is the bottleneck
)

// A fileMark is how a file of the database was when a store was opened or closed.
type fileMark struct {
	Size int64  `json:"size"`
	Time int64  `json:"time"`          // of its last change, in nanoseconds since 1970
	End  uint32 `json:"end,omitempty"` // checksum of its last bytes: of a table it covers the checksum of the index, and so the whole
}

// endBytes of a file are covered by fileMark.End.
const endBytes = 64

// inspect looks at the files of a database that is not open. It is ErrCorrupt when one is not as it must be.
func inspect(folder string, m *marker) error {
	tables, left, err := readManifest(filepath.Join(folder, manifestName))
	if err != nil {
		return err
	}
	if left > 0 {
		return corruptf("%s: the last %d bytes cannot be read", manifestName, left)
	}
	if m.State == markerClosed && m.Files != nil {
		if err := sameFiles(folder, m.Files); err != nil {
			return err
		}
	}
	var g errgroup.Group
	g.SetLimit(maxInspecting)
	for _, name := range tables {
		g.Go(func() error {
			path := filepath.Join(folder, name)
			now, err := markOf(path)
			if errors.Is(err, fs.ErrNotExist) {
				return corruptf("table %s is missing", name)
			}
			if err != nil {
				return err
			}
			before, known := m.Files[name]
			if known && (before.Size != now.Size || before.End != now.End) {
				return corruptf("table %s is not the file that it was", name)
			}
			return checkTable(path, known && before == now, nil)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return checkLogs(folder)
}

// sameFiles compares the folder of a closed store with what the marker lists.
func sameFiles(folder string, want map[string]fileMark) error {
	have, err := markFiles(folder)
	if err != nil {
		return err
	}
	for name, w := range want {
		switch h, ok := have[name]; {
		case !ok:
			return corruptf("file %s is missing", name)
		case h.Size != w.Size:
			return corruptf("file %s has %d bytes, and had %d when the store was closed", name, h.Size, w.Size)
		case h.End != w.End:
			return corruptf("file %s is not the file that it was when the store was closed", name)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			return corruptf("file %s was not there when the store was closed", name)
		}
	}
	return nil
}

// readManifest gives the names of the tables, sorted, and how many bytes at the manifest's end make no whole record.
func readManifest(path string) (tables []string, left int64, err error) {
	f, err := os.Open(path) //nolint:gosec // the caller names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, corruptf("the database has no %s", manifestName)
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // read only
	m, end, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(""))
	if err != nil {
		return nil, 0, corruptf("%s: %w", manifestName, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	for id := range m.Tables {
		tables = append(tables, tableName(id))
	}
	slices.Sort(tables)
	return tables, info.Size() - end, nil
}

func tableName(id uint64) string { return fmt.Sprintf("%06d%s", id, tableSuffix) }

// markTables gives the marks of a running database's tables. Only those in the manifest are written to their ends.
func markTables(folder string) (map[string]fileMark, error) {
	tables, _, err := readManifest(filepath.Join(folder, manifestName)) // what is being added to it just now has no mark
	if err != nil {
		return nil, err
	}
	marks := make(map[string]fileMark, len(tables))
	for _, name := range tables {
		if m, err := markOf(filepath.Join(folder, name)); err == nil {
			marks[name] = m
		} else if !errors.Is(err, fs.ErrNotExist) { // compacted away meanwhile
			return nil, err
		}
	}
	return marks, nil
}

// markFiles gives the marks of a closed database's files. What Badger writes again at each start, and hints, do not count.
func markFiles(folder string) (map[string]fileMark, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("list the database: %w", err)
	}
	marks := make(map[string]fileMark, len(entries))
	for _, e := range entries {
		name := e.Name()
		if name != manifestName && !strings.HasSuffix(name, tableSuffix) && !strings.HasSuffix(name, logSuffix) && !strings.HasSuffix(name, valueSuffix) {
			continue
		}
		if marks[name], err = markOf(filepath.Join(folder, name)); err != nil {
			return nil, err
		}
	}
	return marks, nil
}
