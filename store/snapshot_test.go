package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/store"
)

// topicID is that of the changelog in these tests.
var topicID = [16]byte{7, 1}

func snapshotID(schema store.Schema) store.ID {
	return store.ID{Application: "app", Store: "s", Partition: 2, Changelog: "app-s-changelog", TopicID: topicID, Schema: schema}
}

// snapshotSchemas are one of each kind.
func snapshotSchemas() map[string]store.Schema {
	return map[string]store.Schema{
		"key-value": {},
		"window":    {Kind: store.KindWindow, WindowSize: 10 * time.Millisecond, Retention: 400 * time.Millisecond},
		"session":   {Kind: store.KindSession, Retention: 400 * time.Millisecond},
		"versioned": {Kind: store.KindVersioned, Retention: 400 * time.Millisecond},
	}
}

// randomChange is a change of a store of a kind at about a time.
func randomChange(rng *rand.Rand, schema store.Schema, now int64, maxValue int) store.Change {
	key := fmt.Appendf(nil, "key\x00%d", rng.IntN(300))
	switch rng.IntN(50) {
	case 0:
		key = append(bytes.Repeat([]byte{'l'}, 9000), byte(rng.IntN(5))) // neighbours that differ behind what is kept of them
	case 1:
		key = []byte{}
	}
	c := store.Change{Key: key, Value: bytes.Repeat([]byte{byte(now)}, rng.IntN(maxValue)), Timestamp: now, Delete: rng.IntN(5) == 0}
	switch schema.Kind {
	case store.KindWindow:
		c.Key = store.WindowKey(key, now)
	case store.KindSession:
		c.Key = store.SessionKey(key, now-int64(rng.IntN(5)), now)
	case store.KindVersioned:
		c.Key = store.VersionKey(key, now)
		if c.Value = append([]byte{1}, c.Value...); c.Delete {
			c.Value, c.Delete = nil, false
		}
	case store.KindKeyValue:
	}
	if c.Delete {
		c.Value = nil
	}
	return c
}

// dump is all that a reader shows. Of a versioned store it is what a VersionedReader says: which old versions are still on
// the disk is no part of the state.
func dump(tb testing.TB, r store.Reader) []string {
	tb.Helper()
	lines := []string{fmt.Sprintf("stream time %d", r.StreamTime())}
	var last []byte
	for e, err := range r.Range(nil, nil, false) {
		if err != nil {
			tb.Fatal(err)
		}
		if r.Schema().Kind != store.KindVersioned {
			lines = append(lines, fmt.Sprintf("%q = %q @ %d", e.Key, e.Value.Bytes, e.Value.Timestamp))
			continue
		}
		key, _, err := r.Schema().Decode(e.Key)
		if err != nil {
			tb.Fatal(err)
		}
		if last == nil || !bytes.Equal(key, last) {
			last = key
			lines = append(lines, versionsOf(tb, r, key)...)
		}
	}
	return lines
}

func versionsOf(tb testing.TB, r store.Reader, key []byte) (lines []string) {
	tb.Helper()
	v, err := store.NewVersionedReader(r)
	if err != nil {
		tb.Fatal(err)
	}
	for got, err := range v.Versions(key, store.AllTimes, store.ScanOptions{}) {
		if err != nil {
			tb.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%q from %d to %d = %q", key, got.ValidFrom, got.ValidTo, got.Value.Bytes))
	}
	return lines
}

// export reads a whole export and returns its bytes.
func export(tb testing.TB, e *store.Export, portion int) []byte {
	tb.Helper()
	var all []byte
	for {
		next, err := e.Next(nil, portion)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, next...)
	}
}

// importAll makes a store in dir of what another has exported, in pieces of a size.
func importAll(dir string, id store.ID, at store.Checkpoint, o store.Options, data []byte, piece int, sum store.SnapshotSum) error {
	im, err := store.NewImport(dir, id, at, o)
	if err != nil {
		return err
	}
	for b := range slices.Chunk(data, piece) {
		if _, err := im.Write(b); err != nil {
			return errors.Join(err, im.Abort())
		}
	}
	if err := im.Commit(sum); err != nil {
		return errors.Join(err, im.Abort())
	}
	return im.Abort() // nothing is left to abort
}

// TestSnapshotIsTheStateAtItsPosition copies stores of every kind while they are written, and compares the copy with the
// source at the position: contents, stream time and input position, before and after the same changes came to both.
func TestSnapshotIsTheStateAtItsPosition(t *testing.T) {
	t.Parallel()
	for name, schema := range snapshotSchemas() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3) {
				rng := rand.New(rand.NewPCG(seed, 1))
				copyOnce(t, rng, schema, 1+rng.IntN(40_000), 1+rng.IntN(5_000))
			}
		})
	}
}

func copyOnce(t *testing.T, rng *rand.Rand, schema store.Schema, portion, piece int) {
	t.Helper()
	o := store.Options{MemTableBytes: 1 << 20, Logger: quiet}
	base := t.TempDir()
	source := openStore(t, filepath.Join(base, "source"), snapshotID(schema), o)
	position := int64(0)
	apply := func(stores ...*store.KV) {
		t.Helper()
		var changes []store.Change
		for range rng.IntN(300) {
			changes = append(changes, randomChange(rng, schema, position/4, 200))
			position++
		}
		position++
		at := store.Checkpoint{Position: position, Input: map[store.TopicPartition]int64{{Topic: "in", Partition: 2}: 10 * position}}
		for _, s := range stores {
			if err := s.Apply(changes, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 1 + rng.IntN(30) {
		apply(source)
	}
	e, err := source.Export()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	pinned, err := source.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Release()
	at := e.Checkpoint()
	taken := position
	lateBatches := make([][]store.Change, 0, 5)
	for range 5 { // while the export runs
		var late []store.Change
		for range rng.IntN(100) {
			late = append(late, randomChange(rng, schema, position/4, 200))
			position++
		}
		lateBatches = append(lateBatches, late)
		if err := source.Apply(late, store.Checkpoint{Position: position}); err != nil {
			t.Fatal(err)
		}
	}
	data := export(t, e, portion)
	side, dir := filepath.Join(base, "incoming", "s"), filepath.Join(base, "stores", "s")
	if err := importAll(side, snapshotID(schema), at, o, data, piece, e.Sum()); err != nil {
		t.Fatal(err)
	}
	if err := store.Adopt(side, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(side); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the side directory is still there: %v", err)
	}
	got := openStore(t, dir, snapshotID(schema), o)
	if got.Position() != taken || fmt.Sprint(got.Checkpoint()) != fmt.Sprint(pinned.Checkpoint()) {
		t.Fatalf("the copy is at %v, want %v", got.Checkpoint(), pinned.Checkpoint())
	}
	same(t, "the copy at the position", dump(t, got.Reader()), dump(t, pinned))
	// The changelog's tail, cut otherwise than the source's.
	if err := got.Apply(slices.Concat(lateBatches...), store.Checkpoint{Position: position}); err != nil {
		t.Fatal(err)
	}
	same(t, "the copy after the tail", dump(t, got.Reader()), dump(t, source.Reader()))
	apply(source, got)
	same(t, "the copy after more", dump(t, got.Reader()), dump(t, source.Reader()))
	if err := got.Close(); err != nil {
		t.Fatal(err)
	}
	got = openStore(t, dir, snapshotID(schema), o)
	same(t, "the copy opened again", dump(t, got.Reader()), dump(t, source.Reader()))
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s has %d lines, the source %d; the first that differ: %.200q, want %.200q", what, len(got), len(want), firstOther(got, want), firstOther(want, got))
	}
}

func firstOther(a, b []string) string {
	for i, l := range a {
		if i >= len(b) || b[i] != l {
			return l
		}
	}
	return ""
}

func openStore(tb testing.TB, dir string, id store.ID, o store.Options) *store.KV {
	tb.Helper()
	o.Logger = quiet
	s, err := store.Open(dir, id, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// TestSnapshotOfLargeValues has values that are kept apart from the tables, up to several portions in size, and several tables.
func TestSnapshotOfLargeValues(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	source := openStore(t, filepath.Join(base, "source"), snapshotID(store.Schema{}), store.Options{})
	var changes []store.Change
	for i := range 8 {
		changes = append(changes, store.Change{Key: fmt.Appendf(nil, "large-%d", i), Value: bytes.Repeat([]byte{byte(i)}, i*400_000)})
	}
	for i := range 30_000 {
		changes = append(changes, store.Change{Key: fmt.Appendf(nil, "small-%d", i), Value: bytes.Repeat([]byte{byte(i)}, 100)})
	}
	if err := source.Apply(changes, store.Checkpoint{Position: 1}); err != nil {
		t.Fatal(err)
	}
	e, err := source.Export()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	data := export(t, e, 256<<10)
	dir := filepath.Join(base, "copy")
	if err := importAll(dir, snapshotID(store.Schema{}), e.Checkpoint(), store.Options{Logger: quiet}, data, 1<<20, e.Sum()); err != nil {
		t.Fatal(err)
	}
	got := openStore(t, dir, snapshotID(store.Schema{}), store.Options{})
	same(t, "the copy", dump(t, got.Reader()), dump(t, source.Reader()))
}

// TestSnapshotOfAnEmptyStore is a store too, at a position.
func TestSnapshotOfAnEmptyStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := importAll(dir, snapshotID(store.Schema{}), store.Checkpoint{Position: 77, StreamTime: store.NoStreamTime}, store.Options{Logger: quiet}, nil, 1, store.SnapshotSum{}); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, snapshotID(store.Schema{}), store.Options{})
	if s.Position() != 77 || len(dump(t, s.Reader())) != 1 {
		t.Errorf("at %d with %q", s.Position(), dump(t, s.Reader()))
	}
}

// TestSnapshotThatIsUnsoundLeavesNothing damages a snapshot in every way that a peer or a network could: the import must
// refuse it, leave no directory, and let a sound one follow in the same place.
func TestSnapshotThatIsUnsoundLeavesNothing(t *testing.T) {
	t.Parallel()
	schema := snapshotSchemas()["window"]
	base := t.TempDir()
	source := openStore(t, filepath.Join(base, "source"), snapshotID(schema), store.Options{})
	var changes []store.Change
	for i := range 500 {
		changes = append(changes, store.Change{Key: store.WindowKey(fmt.Appendf(nil, "key-%d", i), int64(i)), Value: []byte("value"), Timestamp: int64(i)})
	}
	if err := source.Apply(changes, store.Checkpoint{Position: 500}); err != nil {
		t.Fatal(err)
	}
	e, err := source.Export()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	data, sum := export(t, e, 1000), e.Sum()
	flip := func(at int) []byte {
		b := bytes.Clone(data)
		b[at] ^= 0x40
		return b
	}
	first := bytes.Index(data, []byte("value")) + len("value")
	cases := map[string]struct {
		data []byte
		sum  store.SnapshotSum
		says string
	}{
		"torn at the end":            {data[:len(data)-1], sum, "middle of an entry"},
		"torn between entries":       {data[:first], sum, "arrived"},
		"nothing at all":             {nil, sum, "arrived"},
		"an entry twice":             {append(bytes.Clone(data[:first]), data...), sum, "not in order"},
		"a value that was damaged":   {flip(first - 1), sum, "arrived"},
		"a key that was damaged":     {flip(first + 3), sum, ""},
		"a key that is too long":     {append([]byte{0xff, 0xff, 0xff, 0x7f}, data...), sum, "over the limit"},
		"a length without an end":    {bytes.Repeat([]byte{0xff}, 20), sum, "over the limit"},
		"a key of another kind":      {[]byte{1, 'k', 9, 0, 0, 0, 0, 0, 0, 0, 0, 0}, sum, "malformed internal key"},
		"a value that is too short":  {[]byte{1, 'k', 1, 0}, sum, "cut short"},
		"another number of entries":  {data, store.SnapshotSum{Entries: sum.Entries + 1, Bytes: sum.Bytes, CRC: sum.CRC}, "arrived"},
		"another sum over the bytes": {data, store.SnapshotSum{Entries: sum.Entries, Bytes: sum.Bytes, CRC: sum.CRC + 1}, "arrived"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "copy")
			err := importAll(dir, snapshotID(schema), e.Checkpoint(), store.Options{Logger: quiet}, c.data, 100, c.sum)
			var unsound *store.SnapshotError
			if !errors.As(err, &unsound) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("the import ended with %v, want a SnapshotError with %q", err, c.says)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory is still there: %v", err)
			}
			if err := store.Adopt(dir, filepath.Join(base, "taken")); err == nil {
				t.Error("what was aborted was adopted")
			}
			if err := importAll(dir, snapshotID(schema), e.Checkpoint(), store.Options{Logger: quiet}, data, 100, sum); err != nil {
				t.Fatal(err)
			}
			same(t, "the copy", dump(t, openStore(t, dir, snapshotID(schema), store.Options{}).Reader()), dump(t, source.Reader()))
		})
	}
}

// TestHalfAnImportIsNoStore copies the directory of an import as a crash would leave it: neither Open nor Adopt takes it for
// a store that has something.
func TestHalfAnImportIsNoStore(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir, crashed := filepath.Join(base, "copy"), filepath.Join(base, "crashed")
	im, err := store.NewImport(dir, snapshotID(store.Schema{}), store.Checkpoint{Position: 9}, store.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := im.Write([]byte{1, 'k', 9, 0, 0, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := im.Abort(); err != nil {
		t.Fatal(err)
	}
	if err := store.Adopt(crashed, filepath.Join(base, "taken")); err == nil {
		t.Error("half an import was adopted")
	}
	s := openStore(t, crashed, snapshotID(store.Schema{}), store.Options{})
	if s.Position() != -1 || len(dump(t, s.Reader())) != 1 {
		t.Errorf("half an import opened at %d with %q", s.Position(), dump(t, s.Reader()))
	}
}

// TestSnapshotOfAnotherIsNotOpened: what was imported under one identity is not another's store.
func TestSnapshotOfAnotherIsNotOpened(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := importAll(dir, snapshotID(store.Schema{}), store.Checkpoint{Position: 1}, store.Options{Logger: quiet}, nil, 1, store.SnapshotSum{}); err != nil {
		t.Fatal(err)
	}
	other := snapshotID(store.Schema{})
	other.TopicID[0]++
	_, err := store.Open(dir, other, store.Options{Logger: quiet})
	if _, ok := errors.AsType[*store.IdentityError](err); !ok {
		t.Errorf("Open with another topic id: %v", err)
	}
}

// TestImportDoesNotTouchAStore: a directory that holds a store is no place to import to, and one that is open none to adopt
// into.
func TestImportDoesNotTouchAStore(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir := filepath.Join(base, "store")
	s := openStore(t, dir, snapshotID(store.Schema{}), store.Options{})
	if err := s.Apply([]store.Change{{Key: []byte("k"), Value: []byte("v")}}, store.Checkpoint{Position: 1}); err != nil {
		t.Fatal(err)
	}
	side := filepath.Join(base, "side")
	if err := importAll(side, snapshotID(store.Schema{}), store.Checkpoint{Position: 5}, store.Options{Logger: quiet}, nil, 1, store.SnapshotSum{}); err != nil {
		t.Fatal(err)
	}
	if err := store.Adopt(side, dir); !errors.Is(err, store.ErrLocked) {
		t.Errorf("Adopt into an open store: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.NewImport(dir, snapshotID(store.Schema{}), store.Checkpoint{Position: 5}, store.Options{Logger: quiet}); err == nil {
		t.Error("a store was imported over")
	}
	if got := openStore(t, dir, snapshotID(store.Schema{}), store.Options{}); got.Position() != 1 {
		t.Errorf("the store is at %d, want 1", got.Position())
	}
}

// TestExportEndsWithItsStore: Close does not wait for whoever takes an export, and the export then says so.
func TestExportEndsWithItsStore(t *testing.T) {
	t.Parallel()
	s := openStore(t, filepath.Join(t.TempDir(), "store"), snapshotID(store.Schema{}), store.Options{})
	var changes []store.Change
	for i := range 1000 {
		changes = append(changes, store.Change{Key: fmt.Appendf(nil, "%04d", i), Value: []byte("v")})
	}
	if err := s.Apply(changes, store.Checkpoint{Position: 1}); err != nil {
		t.Fatal(err)
	}
	e, err := s.Export()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Next(nil, 100); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Next(nil, 100); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Next after Close: %v", err)
	}
	e.Release()
	if _, err := e.Next(nil, 100); !errors.Is(err, store.ErrReleased) {
		t.Errorf("Next after Release: %v", err)
	}
	if _, err := s.Export(); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Export after Close: %v", err)
	}
}
