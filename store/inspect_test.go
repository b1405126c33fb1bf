package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// damageLog is large enough for several tables and logs with the smallest memtables.
var damageLog = changelog{keys: 4000, valueBytes: 300}

// several makes a store of several tables at position 6000; closed, or as a kill leaves it.
func several(t *testing.T, kill bool) string {
	t.Helper()
	live := filepath.Join(t.TempDir(), "store")
	apply := func(s *KV, from, to int64) {
		for p := from; p < to; p += 200 {
			if err := s.Apply(damageLog.records(p, p+200), Checkpoint{Position: p + 200}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := mustOpen(t, live, Options{MemTableBytes: minMemTableBytes})
	apply(s, 0, 5000)
	if kill { // what comes last fits into one log, so that compactions come to an end
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, live, Options{})
	}
	apply(s, 5000, 6000)
	if !kill {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return live
	}
	dir := filepath.Join(t.TempDir(), "killed")
	copyAtRest(t, live, dir)
	return dir
}

// copyAtRest copies a database whose files do not change while they are copied: it is as a kill leaves it.
func copyAtRest(t *testing.T, from, to string) {
	t.Helper()
	marks := func() map[string]fileMark {
		m, err := markFiles(filepath.Join(from, databaseName))
		if err != nil {
			t.Logf("a file goes while it is looked at: %v", err)
		}
		return m
	}
	for {
		before := marks()
		copyDir(t, from, to)
		if before != nil && maps.Equal(before, marks()) {
			return
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Millisecond)
	}
}

// files of a store's database that fit a pattern.
func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, databaseName, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: no such files, err=%v", pattern, err)
	}
	return found
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1 << (at % 8)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// judge opens a damaged directory. It must be refused as corrupt, or be exactly the state at its position, which after an
// orderly end is the last one: then nothing may have been lost.
func judge(t *testing.T, dir string, closed bool, what string) (refused bool) {
	t.Helper()
	s, err := Open(dir, testID, Options{Logger: testLogs})
	if errors.Is(err, ErrCorrupt) {
		return true
	}
	if err != nil {
		t.Fatalf("%s: %v, want ErrCorrupt or a good store", what, err)
	}
	defer s.Close() //nolint:errcheck // it is thrown away
	if p := s.Position(); closed && p != 6000 || p > 6000 {
		t.Errorf("%s: opened at %d, want 6000", what, s.Position())
	}
	damageLog.check(t, s)
	return false
}

// TestAnyDamageIsSeenOrHarmless flips a bit or cuts the end off each file, at places that a seed chooses.
func TestAnyDamageIsSeenOrHarmless(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 3))
	for _, kill := range []bool{false, true} {
		from := several(t, kill)
		names := files(t, from, "*")
		refused := map[string]int{}
		for _, path := range names {
			name := filepath.Base(path)
			for i := range 2 {
				dir := filepath.Join(t.TempDir(), "damaged")
				copyDir(t, from, dir)
				target := filepath.Join(dir, databaseName, name)
				info, err := os.Stat(target)
				if err != nil {
					t.Fatal(err)
				}
				if info.Size() == 0 {
					continue
				}
				at := rng.Int64N(info.Size())
				what := fmt.Sprintf("killed=%v: %s of %d bytes: bit flipped at %d", kill, name, info.Size(), at)
				if i%2 == 0 {
					flip(t, target, at)
				} else {
					what = fmt.Sprintf("killed=%v: %s of %d bytes: cut to %d", kill, name, info.Size(), at)
					if err := os.Truncate(target, at); err != nil {
						t.Fatal(err)
					}
				}
				if judge(t, dir, !kill, what) {
					refused[filepath.Ext(name)]++
				}
				_ = os.RemoveAll(dir)
			}
		}
		t.Logf("killed=%v: refused %v, 2 tries for each of %d files", kill, refused, len(names))
		if refused[tableSuffix] == 0 || refused[""] == 0 {
			t.Errorf("killed=%v: no damage of a table or the manifest was refused", kill)
		}
	}
}

// TestEveryFlippedBlockIsSeen flips one bit in each table, block by block, and opens.
func TestEveryFlippedBlockIsSeen(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{false, true} {
		from := several(t, kill)
		table := files(t, from, "*"+tableSuffix)[0]
		info, err := os.Stat(table)
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(0); at < info.Size(); at += max(4<<10+13, info.Size()/6) {
			dir := filepath.Join(t.TempDir(), "damaged")
			copyDir(t, from, dir)
			flip(t, filepath.Join(dir, databaseName, filepath.Base(table)), at)
			if !judge(t, dir, !kill, fmt.Sprintf("killed=%v: table flipped at %d", kill, at)) {
				t.Errorf("killed=%v: a bit flipped at %d of %d is not seen", kill, at, info.Size())
			}
			_ = os.RemoveAll(dir)
		}
	}
}

// TestDamagedLogIsSeen flips a bit or cuts at many places of a log that is not the newest.
func TestDamagedLogIsSeen(t *testing.T) {
	t.Parallel()
	log, err := os.ReadFile(files(t, several(t, true), "*"+logSuffix)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := checkLog(bytes.NewReader(log)); err != nil {
		t.Fatalf("the log as it was: %v", err)
	}
	end := len(bytes.TrimRight(log, "\x00"))
	if err := checkLog(bytes.NewReader(log[:end])); err != nil {
		t.Fatalf("the log without its zeros: %v", err)
	}
	for at := logHeaderBytes; at < end+2000; at += 61 {
		damaged := bytes.Clone(log[:end+4000])
		damaged[at] ^= 0x10
		if checkLog(bytes.NewReader(damaged)) == nil {
			t.Errorf("a bit flipped at %d of %d is not seen", at, end)
		}
	}
	whole := 0
	for at := end - 1; at > logHeaderBytes; at -= 97 {
		if checkLog(bytes.NewReader(log[:at])) == nil {
			whole++ // cut exactly between two transactions: the witnesses find it
		}
	}
	if whole > 3 {
		t.Errorf("%d of %d cuts are not seen", whole, end/97)
	}
}

// TestRemovedFilesAreSeen removes each file of a database in turn.
func TestRemovedFilesAreSeen(t *testing.T) {
	t.Parallel()
	for _, kill := range []bool{false, true} {
		from := several(t, kill)
		for _, pattern := range []string{"*" + tableSuffix, manifestName, "*" + logSuffix} {
			if pattern == "*"+logSuffix && !kill {
				continue // an orderly end leaves none
			}
			for _, path := range files(t, from, pattern) {
				dir := filepath.Join(t.TempDir(), "damaged")
				copyDir(t, from, dir)
				if err := os.Remove(filepath.Join(dir, databaseName, filepath.Base(path))); err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("killed=%v: %s removed", kill, filepath.Base(path))
				if !judge(t, dir, !kill, what) && pattern != "*"+logSuffix {
					t.Errorf("%s: not seen", what)
				}
			}
		}
	}
}

// TestTableOfAnotherPartitionIsSeen puts a sound table with the right name from another store into the place of one.
func TestTableOfAnotherPartitionIsSeen(t *testing.T) {
	t.Parallel()
	dir := several(t, false)
	other := filepath.Join(t.TempDir(), "other")
	id := testID
	id.Partition++
	s, err := Open(other, id, Options{MemTableBytes: minMemTableBytes, Logger: testLogs})
	if err != nil {
		t.Fatal(err)
	}
	log := changelog{keys: 4000, valueBytes: 290}
	for p := int64(0); p < 6000; p += 200 {
		if err := s.Apply(log.records(p, p+200), Checkpoint{Position: p + 200}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	swapped := 0
	for _, path := range files(t, other, "*"+tableSuffix) {
		target := filepath.Join(dir, databaseName, filepath.Base(path))
		if _, err := os.Stat(target); err != nil {
			continue
		}
		copied := filepath.Join(t.TempDir(), "swapped")
		copyDir(t, dir, copied)
		if err := copySparse(path, filepath.Join(copied, databaseName, filepath.Base(path))); err != nil {
			t.Fatal(err)
		}
		swapped++
		if !judge(t, copied, true, "table "+filepath.Base(path)+" of another partition") {
			t.Errorf("table %s of another partition is not seen", filepath.Base(path))
		}
	}
	if swapped == 0 {
		t.Error("the stores have no table of one name: the test tests nothing")
	}
}

// TestKilledStoreIsReadOnlyWhereItIsNew: what an Open before has seen is not read again, unless its time has changed.
func TestKilledStoreIsReadOnlyWhereItIsNew(t *testing.T) {
	t.Parallel()
	dir := several(t, true)
	s := mustOpen(t, dir, Options{}) // marks the tables
	m, err := readMarker(dir)
	if err != nil || m == nil || len(m.Files) == 0 {
		t.Fatalf("marker %+v, %v", m, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	table := files(t, dir, "*"+tableSuffix)[0]
	info, err := os.Stat(table)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, table, 100)
	if err := os.Chtimes(table, time.Time{}, info.ModTime()); err != nil { // a disk that forgets changes no time
		t.Fatal(err)
	}
	s = mustOpen(t, dir, Options{})
	if _, err := s.Scrub(t.Context(), 0); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), filepath.Base(table)) {
		t.Errorf("Scrub: %v, want one about %s", err, filepath.Base(table))
	}
}

func TestScrubReadsEveryTable(t *testing.T) {
	t.Parallel()
	dir := several(t, false)
	s := mustOpen(t, dir, Options{})
	var size int64
	for _, path := range files(t, dir, "*"+tableSuffix) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	read, err := s.Scrub(t.Context(), 0)
	if err != nil || read < size*8/10 || read > size {
		t.Errorf("Scrub read %d of %d bytes, %v", read, size, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if read, err := s.Scrub(ctx, size); !errors.Is(err, context.DeadlineExceeded) || read > size/2 {
		t.Errorf("Scrub at %d bytes a second read %d in 50ms, %v", size, read, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Scrub(t.Context(), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("Scrub of a closed store: %v", err)
	}
}

func TestQuarantineKeepsTheNewest(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "quarantine")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var moved []string
	for i := range 4 {
		dir := filled(t, Options{})
		path, err := Quarantine(dir, folder, "counts-3", fmt.Sprintf("reason %d", i), 2, now.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		moved = append(moved, filepath.Base(path))
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it is still there: %v", err)
		}
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, e := range entries {
		kept = append(kept, e.Name())
	}
	if !slices.Equal(kept, moved[2:]) || kept[0] != "20260102T030407.000Z-counts-3" {
		t.Errorf("kept %q of %q", kept, moved)
	}
	reason, err := os.ReadFile(filepath.Join(folder, kept[1], reasonName))
	if err != nil || string(reason) != "reason 3\n" {
		t.Errorf("the reason is %q, %v", reason, err)
	}
	smallLog.check(t, mustOpen(t, filepath.Join(folder, kept[0]), Options{})) // what was moved is whole
	if moved, err := Quarantine(filepath.Join(t.TempDir(), "none"), folder, "x", "", 2, now); moved != "" || err != nil {
		t.Errorf("of nothing: %q, %v", moved, err)
	}
	if moved, err := Quarantine(filled(t, Options{}), folder, "x", "", 0, now); moved != "" || err != nil {
		t.Errorf("keep none: %q, %v", moved, err)
	}
}

func TestOpenStoreIsNotQuarantined(t *testing.T) {
	t.Parallel()
	dir := filled(t, Options{})
	s := mustOpen(t, dir, Options{})
	if _, err := Quarantine(dir, filepath.Join(t.TempDir(), "q"), "x", "", 2, time.Now()); !errors.Is(err, ErrLocked) {
		t.Errorf("Quarantine of an open store: %v", err)
	}
	smallLog.check(t, s)
}

// TestScrubBesideCompaction: a table that compaction replaces while it is read is cut to nothing before it is removed. That is no
// damage.
func TestScrubBesideCompaction(t *testing.T) {
	t.Parallel()
	dir := several(t, false)
	s := mustOpen(t, dir, Options{MemTableBytes: minMemTableBytes})
	first, err := s.tableIDs()
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for id := range first {
		info, err := os.Stat(filepath.Join(dir, databaseName, tableName(id)))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	scrubbed := make(chan error, 1)
	go func() {
		_, err := s.Scrub(t.Context(), size/2) // two seconds of it
		scrubbed <- err
	}()
	log := changelog{keys: 4000, valueBytes: 290}
	replaced := false
	for p := s.Position(); ; p += 200 {
		select {
		case err := <-scrubbed:
			if err != nil {
				t.Errorf("Scrub beside compaction: %v", err)
			}
			if !replaced {
				t.Error("no table was replaced meanwhile: the test tests nothing")
			}
			return
		default:
		}
		if err := s.Apply(log.records(p, p+200), Checkpoint{Position: p + 200}); err != nil {
			t.Fatal(err)
		}
		now, err := s.tableIDs()
		if err != nil {
			t.Fatal(err)
		}
		for id := range first {
			replaced = replaced || !now[id]
		}
	}
}
