package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// seedFiles are small sound files of a database.
func seedFiles(f *testing.F) map[string][]byte {
	f.Helper()
	dir := filepath.Join(f.TempDir(), "store")
	s, err := Open(dir, testID, Options{MemTableBytes: minMemTableBytes, Logger: testLogs})
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Apply(smallLog.records(0, 50), Checkpoint{Position: 50}); err != nil {
		f.Fatal(err)
	}
	read := func(pattern string) []byte {
		found, err := filepath.Glob(filepath.Join(dir, databaseName, pattern))
		if err != nil || len(found) == 0 {
			f.Fatalf("%s: no such file, %v", pattern, err)
		}
		b, err := os.ReadFile(found[0])
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	log := bytes.TrimRight(read("*"+logSuffix), "\x00")
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	return map[string][]byte{"log": log, "table": read("*" + tableSuffix), "manifest": read(manifestName)}
}

// FuzzDamagedFiles gives any bytes as the files of a database. They are read to their ends or refused as corrupt: no panic,
// no memory beyond the file's own size.
func FuzzDamagedFiles(f *testing.F) {
	seeds := seedFiles(f)
	for _, b := range seeds {
		f.Add(b)
		for i := 0; i < len(b); i += max(1, len(b)/20) {
			damaged := bytes.Clone(b)
			damaged[i] ^= 0x41
			f.Add(damaged)
			f.Add(b[:i])
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkTable(path, false, nil); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("as a table: %v", err)
		}
		if _, _, err := readManifest(path); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("as a manifest: %v", err)
		}
		if err := checkLog(bytes.NewReader(data)); err == nil && len(data) < logHeaderBytes {
			t.Fatal("a log without its header is whole")
		}
	})
}

// FuzzMarker gives any bytes as a marker. It is refused as corrupt, or says what is to be done.
func FuzzMarker(f *testing.F) {
	f.Add([]byte(`{"format":1,"state":"open","boot_id":"b","synced":true,"files":{"000001.sst":{"size":1,"time":2,"end":3}}}`))
	f.Add([]byte(`{"format":1,"state":"closed"}`))
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`null`))
	f.Add([]byte{})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, markerName), data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readMarker(dir)
		if err == nil {
			if m == nil {
				t.Fatalf("%q is no marker", data)
			}
			_, err = decideOpen(m, true, "b")
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%q: %v", data, err)
		}
	})
}

// FuzzInternalKeys gives any bytes as an internal key, as a page token's cursor may hold them. What is taken apart is the
// same again.
func FuzzInternalKeys(f *testing.F) {
	f.Add(WindowKey([]byte("alice"), 5))
	f.Add(SessionKey([]byte{0, 0xff}, 5, 9))
	f.Add(VersionKey(nil, -1))
	f.Add([]byte{0, 1})
	f.Fuzz(func(t *testing.T, internal []byte) {
		for _, s := range []Schema{
			{Kind: KindWindow, WindowSize: time.Second, Retention: time.Minute}, {Kind: KindSession, Retention: time.Minute}, {Kind: KindVersioned, Retention: time.Minute},
		} {
			key, first, second, err := s.parse(internal)
			if err != nil {
				continue
			}
			times := []int64{first, second}[:s.timesOf()]
			if again := internalKey(key, times...); !bytes.Equal(again, internal) {
				t.Fatalf("%s: %x is %q at %v, which is %x", s, internal, key, times, again)
			}
		}
	})
}
