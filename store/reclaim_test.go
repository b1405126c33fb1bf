//go:build unix

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// diskBytes is what a directory's files take on the disk: logs are mapped larger than they are filled.
func diskBytes(tb testing.TB, dir string) (n int64) {
	tb.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && !d.IsDir() {
			info, err = d.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // compacted away meanwhile
		}
		if err != nil || d.IsDir() {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			n += st.Blocks * 512
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// TestLargeValuesAreReclaimed overwrites values that are kept apart from the tables: what is garbage among them goes away by
// ReclaimSpace, and by nothing else.
func TestLargeValuesAreReclaimed(t *testing.T) {
	t.Parallel()
	const keys, valueBytes, rounds = 20, 2 << 20, 15
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, Options{})
	position := int64(0)
	for range rounds {
		for k := range keys {
			value := make([]byte, valueBytes)
			binary.BigEndian.PutUint64(value, uint64(position))
			position++
			if err := s.Apply([]Change{{Key: fmt.Appendf(nil, "key-%d", k), Value: value}}, Checkpoint{Position: position}); err != nil {
				t.Fatal(err)
			}
		}
		reclaim(t, s)
	}
	live := int64(keys * valueBytes)
	used := diskBytes(t, dir)
	for range 300 { // compaction takes its time
		if used <= 3*live+3*valueLogFileBytes {
			break
		}
		time.Sleep(100 * time.Millisecond)
		position++
		if err := s.Apply([]Change{{Key: []byte("small"), Value: []byte("v")}}, Checkpoint{Position: position}); err != nil {
			t.Fatal(err)
		}
		reclaim(t, s)
		used = diskBytes(t, dir)
	}
	t.Logf("%d MB written, %d MB alive, %d MB on disk", rounds*live>>20, live>>20, used>>20)
	if used > 3*live+3*valueLogFileBytes {
		t.Errorf("%d bytes on disk for %d alive", used, live)
	}
	for k := range keys {
		v, found, _, err := s.Get(fmt.Appendf(nil, "key-%d", k))
		if err != nil || !found || binary.BigEndian.Uint64(v.Bytes) != uint64(keys*(rounds-1)+k) {
			t.Errorf("key-%d: found %t, %v", k, found, err)
		}
	}
}

// TestLargeValueMovesWhileItIsRead: a value is found at its new place when its file is rewritten between the look-up and the
// reading. Badger gives nothing for it then, which looks like damage.
func TestLargeValueMovesWhileItIsRead(t *testing.T) {
	t.Parallel()
	const keys, valueBytes = 40, 2 << 20
	reclaims := func() {}
	var o Options
	o.hooks.found = func() { reclaims() }
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
	put := func(k int) {
		if err := s.Apply([]Change{{Key: fmt.Appendf(nil, "key-%d", k), Value: make([]byte, valueBytes)}}, Checkpoint{Position: s.Position() + 1}); err != nil {
			t.Fatal(err)
		}
	}
	for k := range keys {
		put(k)
	}
	for k := 1; k < keys; k++ { // of the first file key-0 alone stays
		put(k)
	}
	s.spillAsked.Store(true)
	for range spillRounds + 1 {
		put(1)
	}
	moved := false
	for i := 0; !moved && i < 300; i++ { // compaction takes its time
		reclaims = func() {
			reclaims = func() {}
			more, err := s.ReclaimSpace()
			if err != nil {
				t.Error(err)
			}
			moved = more
		}
		v, found, _, err := s.Get([]byte("key-0"))
		if err != nil || !found || len(v.Bytes) != valueBytes {
			t.Fatalf("%d bytes, found %t, %v", len(v.Bytes), found, err)
		}
		if !moved {
			time.Sleep(100 * time.Millisecond)
		}
	}
	if !moved {
		t.Error("nothing was rewritten: the test tests nothing")
	}
}

func reclaim(t *testing.T, s *KV) {
	t.Helper()
	for {
		more, err := s.ReclaimSpace()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
}
