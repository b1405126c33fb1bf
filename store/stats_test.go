package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestSizesAreThoseOfTheFiles: tables once a memtable was written, files of large values but for the newest, and nothing of a
// store that is closed.
func TestSizesAreThoseOfTheFiles(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{MemTableBytes: 512 << 10})
	if got, err := s.Sizes(); err != nil || got != (Sizes{}) {
		t.Errorf("of an empty store: %+v, %v", got, err)
	}
	changes := []Change{{Key: []byte("large"), Value: make([]byte, valueLogFileBytes/2-1<<10)}} // two fill a file
	for i := range 500 {
		changes = append(changes, Change{Key: fmt.Append(nil, "k", i), Value: bytes.Repeat([]byte("v"), 1000)})
	}
	for p := range int64(8) {
		if err := s.Apply(changes, Checkpoint{Position: p}); err != nil {
			t.Fatal(err)
		}
	}
	sizes, err := s.Sizes()
	if err != nil {
		t.Fatal(err)
	}
	var onDisk int64
	tables, _ := filepath.Glob(filepath.Join(s.dir, databaseName, "*.sst"))
	for _, path := range tables {
		if info, err := os.Stat(path); err == nil { // else it was compacted away just now
			onDisk += info.Size()
		}
	}
	if sizes.Tables < 1 || sizes.TableBytes < 500_000 || sizes.TableBytes > 2*onDisk || onDisk > 2*sizes.TableBytes {
		t.Errorf("%+v; the files of tables have %d bytes", sizes, onDisk)
	}
	if sizes.ValueBytes < valueLogFileBytes {
		t.Errorf("%d bytes of large values, want more than a file of them", sizes.ValueBytes)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sizes(); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed store: %v, want ErrClosed", err)
	}
}
