package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestImportStopsBeforeTheDiskIsFull: Badger writes tables through memory maps, and a disk that is full to the last block
// would kill the process. Nothing of the import is left, so there is room for the changelog.
func TestImportStopsBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	for _, rounds := range []int{0, 1, 5} {
		dir := filepath.Join(t.TempDir(), "copy")
		left := rounds
		o := Options{Logger: testLogs, hooks: hooks{freeBytes: func(string) (int64, error) {
			if left--; left < 0 {
				return defaultMinFreeBytes, nil
			}
			return 1 << 40, nil
		}}}
		im, err := NewImport(dir, testID, Checkpoint{Position: 10}, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; err == nil && i < 20_000; i++ {
			_, err = im.Write(appendWireEntry(nil, fmt.Appendf(nil, "key-%08d", i), encodeValue(nil, nil, make([]byte, 1000), 1)))
		}
		if !errors.Is(err, ErrNoSpace) {
			t.Errorf("after %d rounds with room: %v", rounds, err)
		}
		if err := im.Abort(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory is still there: %v", err)
		}
	}
}

// TestImportedTablesAreAtTheLastLevel: what was imported is not compacted again, and its tables are few.
func TestImportedTablesAreAtTheLastLevel(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "copy")
	im, err := NewImport(dir, testID, Checkpoint{Position: 10, StreamTime: NoStreamTime}, Options{Logger: testLogs})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60_000 {
		if _, err := im.Write(appendWireEntry(nil, fmt.Appendf(nil, "key-%08d", i), encodeValue(nil, nil, make([]byte, 100), 1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := im.Commit(im.Sum()); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir, Options{})
	tables, last := s.db.Tables(), s.db.Opts().MaxLevels-1
	data := 0
	for _, table := range tables {
		if table.Level == last {
			data++
		}
	}
	if data < 2 || data > 8 || len(tables) > data+1 { // and one of identity and position
		t.Errorf("%d tables, %d of them at the last level", len(tables), data)
	}
	if s.db.MaxVersion() != s.w.stored.ts || s.w.torn {
		t.Errorf("the newest version is %d, the position's %d", s.db.MaxVersion(), s.w.stored.ts)
	}
}
