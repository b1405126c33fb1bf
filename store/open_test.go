package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// openFails opens a directory that must be refused, and gives back why.
func openFails(t *testing.T, dir string, id ID, o Options) error {
	t.Helper()
	o.Logger = testLogs
	s, err := Open(dir, id, o)
	if err == nil {
		_ = s.Close()
		t.Fatalf("%s opened at position %d", dir, s.Position())
	}
	return err
}

// filled makes a closed store with some content.
func filled(t *testing.T, o Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, o)
	if err := s.Apply(smallLog.records(0, 1000), Checkpoint{Position: 1000}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

var smallLog = changelog{keys: 300, valueBytes: 20}

func TestDirectoryOfAnotherStoreIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	dir := filled(t, Options{})
	for want, change := range map[string]func(*ID){
		`application is "app", want "x"`:                func(id *ID) { id.Application = "x" },
		`store is "counts", want "x"`:                   func(id *ID) { id.Store = "x" },
		`partition is 3, want 4`:                        func(id *ID) { id.Partition = 4 },
		`changelog is "app-counts-changelog", want "x"`: func(id *ID) { id.Changelog = "x" },
	} {
		id := testID
		change(&id)
		err := openFails(t, dir, id, Options{})
		var identity *IdentityError
		if !errors.As(err, &identity) || identity.Want != id || identity.Have != testID || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error is %v, want an IdentityError with %s", err, want)
		}
		if errors.Is(err, ErrCorrupt) {
			t.Errorf("%v: another's store is not a corrupt one", err)
		}
	}
	smallLog.check(t, mustOpen(t, dir, Options{}))
}

func TestTopicIDIsTakenOverOnceAndComparedFromThenOn(t *testing.T) {
	t.Parallel()
	dir := filled(t, Options{})
	known, other := testID, testID
	known.TopicID, other.TopicID = [16]byte{1}, [16]byte{2}
	for _, id := range []ID{known, testID, known} { // an unknown one fits any
		s, err := Open(dir, id, Options{Logger: testLogs})
		if err != nil {
			t.Fatal(err)
		}
		if s.ID() != known {
			t.Errorf("ID is %+v, want %+v", s.ID(), known)
		}
		smallLog.check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var identity *IdentityError
	if err := openFails(t, dir, other, Options{}); !errors.As(err, &identity) {
		t.Errorf("a re-created changelog: %v", err)
	}
}

func TestBadArgumentsAreNamed(t *testing.T) {
	t.Parallel()
	err := openFails(t, t.TempDir(), ID{Partition: -1}, Options{MemTableBytes: 5, DrainTimeout: -1})
	for _, want := range []string{"ID.Store is empty", "ID.Partition is -1", "Options.MemTableBytes is 5", "Options.DrainTimeout is -1ns"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestOversizedEntryIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "", Options{InMemory: true})
	changes := []Change{{Key: []byte("a")}, {Key: []byte("b"), Value: make([]byte, 2<<20)}}
	var size *SizeError
	if err := s.Apply(changes, Checkpoint{Position: 2}); !errors.As(err, &size) || size.Index != 1 || size.Max != 1<<20 {
		t.Errorf("Apply: %v", err)
	}
	if _, found, at, err := s.Get([]byte("a")); found || at.Position != -1 || err != nil {
		t.Errorf("found=%v at %d err=%v", found, at.Position, err)
	}
}

func TestDirectoryInUseIsLocked(t *testing.T) {
	t.Parallel()
	dir := filled(t, Options{})
	s := mustOpen(t, dir, Options{})
	if err := openFails(t, dir, testID, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("second Open: %v", err)
	}
	if err := Remove(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("Remove of an open store: %v", err)
	}
	smallLog.check(t, s)
}

func TestRemoveLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filled(t, Options{})
	for range 2 {
		if err := Remove(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after Remove: %v", err)
		}
	}
	if s := mustOpen(t, dir, Options{}); s.Position() != -1 {
		t.Errorf("a new store is at %d", s.Position())
	}
}

func TestRemoveKeepsFilesOfOthers(t *testing.T) {
	t.Parallel()
	dir := filled(t, Options{})
	notes := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(notes, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Remove(dir); err == nil {
		t.Error("Remove says that all is gone")
	}
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
}

// crashed makes a directory as a dead process leaves it.
func crashed(t *testing.T, o Options) string {
	t.Helper()
	live := filepath.Join(t.TempDir(), "live")
	s := mustOpen(t, live, o)
	for p := int64(0); p < 1000; p += 100 {
		if err := s.Apply(smallLog.records(p, p+100), Checkpoint{Position: p + 100}); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "crashed")
	copyDir(t, live, dir)
	return dir
}

func boot(id string) hooks {
	return hooks{bootID: func() string { return id }}
}

func TestStoreNotClosedBeforeARebootIsCorrupt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		dir     string
		corrupt bool
	}{
		{"killed", crashed(t, Options{hooks: boot("one")}), true},
		{"killed with SyncWrites", crashed(t, Options{hooks: boot("one"), SyncWrites: true}), false},
		{"closed", filled(t, Options{hooks: boot("one")}), false},
	} {
		if c.corrupt {
			if err := openFails(t, c.dir, testID, Options{hooks: boot("two")}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %v", c.name, err)
			}
			if err := Remove(c.dir); err != nil {
				t.Errorf("%s: a corrupt store cannot be removed: %v", c.name, err)
			}
			continue
		}
		smallLog.check(t, mustOpen(t, c.dir, Options{hooks: boot("two")}))
	}
	smallLog.check(t, mustOpen(t, crashed(t, Options{hooks: boot("one")}), Options{hooks: boot("one")}))
}

func TestLostDataAreFoundWhenAStoreOpens(t *testing.T) {
	t.Parallel()
	remove := func(pattern string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: no such files, err=%v", pattern, err)
			}
			for _, f := range files {
				if err := os.RemoveAll(f); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, damage := range map[string]func(t *testing.T, dir string){
		"the whole database": remove("db"),
		"all its files":      remove("db/*"),
		"the only log":       remove("db/*.mem"),
		"the marker":         remove("store.json"),
		"half the marker": func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Truncate(filepath.Join(dir, markerName), 10); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := crashed(t, Options{})
			damage(t, dir)
			if err := openFails(t, dir, testID, Options{}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("error is %v, want ErrCorrupt", err)
			}
			if err := Remove(dir); err != nil {
				t.Fatal(err)
			}
			if s := mustOpen(t, dir, Options{}); s.Position() != -1 {
				t.Errorf("the new store is at %d", s.Position())
			}
		})
	}
	t.Run("a table", func(t *testing.T) {
		dir := filled(t, Options{})
		remove("db/*.sst")(t, dir)
		if err := openFails(t, dir, testID, Options{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("error is %v, want ErrCorrupt", err)
		}
	})
}

// TestPositionInANewerLogThanItsDataIsCorrupt cuts what earlier Applies wrote out of the log, as when a power loss took
// an older log and left a newer one, which has the position.
func TestPositionInANewerLogThanItsDataIsCorrupt(t *testing.T) {
	t.Parallel()
	const logHeader = 20 // key id and initialisation vector
	log := changelog{keys: 100_000, valueBytes: 1000}
	live := filepath.Join(t.TempDir(), "live")
	s := mustOpen(t, live, Options{})
	mem := filepath.Join(databaseName, "00001.mem")
	if err := s.Apply(log.records(0, 1), Checkpoint{Position: 1}); err != nil {
		t.Fatal(err)
	}
	var used []int // bytes of the log after each Apply
	for p := int64(1); p <= 4001; p += 2000 {
		b, err := os.ReadFile(filepath.Join(live, mem))
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, len(bytes.TrimRight(b, "\x00")))
		if err := s.Apply(log.records(p, p+2000), Checkpoint{Position: p + 2000}); err != nil {
			t.Fatal(err)
		}
	}
	for name, cut := range map[string][2]int{
		"nothing":                 {used[0], used[0]},
		"the first large Apply":   {used[0], used[1]},
		"the second large Apply":  {used[1], used[2]},
		"everything but the last": {logHeader, used[2]},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "crashed")
			copyDir(t, live, dir)
			path := filepath.Join(dir, mem)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, append(b[:cut[0]:cut[0]], b[cut[1]:]...), 0o600); err != nil {
				t.Fatal(err)
			}
			if cut[0] == cut[1] {
				log.check(t, mustOpen(t, dir, Options{}))
				return
			}
			if err := openFails(t, dir, testID, Options{}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("error is %v, want ErrCorrupt", err)
			} else if name != "everything but the last" && !strings.Contains(err.Error(), "witness") {
				t.Errorf("error is %v, want one about witnesses", err)
			}
		})
	}
}

// TestEmptyLogsOfAKilledRotationAreRemoved is badger#2207: Badger alone does not open with them.
func TestEmptyLogsOfAKilledRotationAreRemoved(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"00002.mem", "00007.mem", "000002.vlog"} {
		dir := crashed(t, Options{})
		path := filepath.Join(dir, databaseName, name)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		smallLog.check(t, mustOpen(t, dir, Options{}))
	}
}

// forgetFiles takes away what Open would see first: that files have changed since the store was closed.
func forgetFiles(t *testing.T, dir string) {
	t.Helper()
	m, err := readMarker(dir)
	if err != nil || m == nil {
		t.Fatalf("marker %v, %v", m, err)
	}
	m.Files = nil
	if err := writeMarker(dir, *m); err != nil {
		t.Fatal(err)
	}
}

// TestLargeValueWhoseFileIsGoneIsCorrupt: Badger answers such a read with nothing and no error.
func TestLargeValueWhoseFileIsGoneIsCorrupt(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, Options{})
	if err := s.Apply([]Change{{Key: []byte("big"), Value: make([]byte, 3<<20)}}, Checkpoint{Position: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, databaseName, "000001.vlog"), 100); err != nil {
		t.Fatal(err)
	}
	forgetFiles(t, dir)
	s = mustOpen(t, dir, Options{})
	if v, found, _, err := s.Get([]byte("big")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Get: %d bytes, found=%v, err=%v, want ErrCorrupt", len(v.Bytes), found, err)
	}
	var last error
	for _, err := range s.Reader().Range(nil, nil, false) {
		last = err
	}
	if !errors.Is(last, ErrCorrupt) {
		t.Errorf("Range: %v, want ErrCorrupt", last)
	}
}

// TestPositionEntryMustFitItsTimestamp writes one as no Apply would.
func TestPositionEntryMustFitItsTimestamp(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]meta{
		"position above its timestamp": {at: Checkpoint{Position: 5000}, ts: 3000},
		"of another timestamp":         {at: Checkpoint{Position: 1000}, ts: 2000},
		"negative position":            {at: Checkpoint{Position: -2}, ts: 3000},
	} {
		dir := filled(t, Options{})
		db, err := badger.OpenManaged(Options{Logger: testLogs}.withDefaults().badger(filepath.Join(dir, databaseName)))
		if err != nil {
			t.Fatal(err)
		}
		txn := db.NewTransactionAt(3000, true)
		if err := errors.Join(txn.Set(positionKey, encodeMeta(m)), txn.CommitAt(3000, nil), db.Close()); err != nil {
			t.Fatal(err)
		}
		forgetFiles(t, dir)
		if err := openFails(t, dir, testID, Options{}); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "position") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
