//go:build unix

package store

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDiskAfterADayOfChurn overwrites every key of a store again and again, far more often than it is large, with a snapshot
// that is held for a while, and looks at what is on the disk in the end: at most three times what is alive.
func TestDiskAfterADayOfChurn(t *testing.T) {
	t.Parallel()
	const (
		keys, valueBytes = 60_000, 400
		rounds           = 9
		batch            = 6_000
		maxTables        = 30
	)
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, Options{MemTableBytes: 1 << 20})
	value := make([]byte, valueBytes)
	position, peak := int64(0), int64(0)
	var held *Snapshot
	for round := range rounds {
		for from := 0; from < keys; from += batch {
			var changes []Change
			for i := range batch {
				binary.BigEndian.PutUint64(value, uint64(position))
				changes = append(changes, Change{Key: fmt.Appendf(nil, "key-%06d", (from+i)*7919%keys), Value: append([]byte{}, value...)})
				position++
			}
			if err := s.Apply(changes, Checkpoint{Position: position}); err != nil {
				t.Fatal(err)
			}
		}
		switch round {
		case rounds / 4:
			var err error
			if held, err = s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		case rounds / 3:
			held.Release()
		}
		peak = max(peak, diskBytes(t, dir))
	}
	live := int64(keys * (len("key-000000") + valueBytes))
	used := diskBytes(t, dir)
	for i := 0; (used > 3*live || tableFiles(t, dir) > maxTables) && i < 300; i++ { // compaction takes its time on a busy machine
		time.Sleep(100 * time.Millisecond)
		used = diskBytes(t, dir)
	}
	t.Logf("%d MB written, %d MB alive, %d MB on disk, at most %d MB", live*rounds>>20, live>>20, used>>20, peak>>20)
	if used > 3*live {
		t.Errorf("%d bytes on disk for %d alive", used, live)
	}
	if n := tableFiles(t, dir); n > maxTables {
		t.Errorf("%d table files", n)
	}
}

func tableFiles(tb testing.TB, dir string) (n int) {
	tb.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, databaseName))
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".sst") {
			n++
		}
	}
	return n
}
