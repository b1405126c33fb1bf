package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	testID   = ID{Application: "app", Store: "counts", Partition: 3, Changelog: "app-counts-changelog"}
	testLogs = slog.New(slog.DiscardHandler)
	errCrash = errors.New("crash")
)

// changelog is a changelog of any length that is the same each time: the record at an offset is a function of it.
type changelog struct {
	keys       int // distinct keys
	valueBytes int
}

func (l changelog) at(offset int64) Change {
	mixed := bits.RotateLeft64(uint64(offset+1)*0x9e3779b97f4a7c15, 29) * 0xbf58476d1ce4e5b9
	c := Change{Key: fmt.Append(nil, "key-", mixed>>8%uint64(l.keys)), Timestamp: offset}
	if c.Delete = mixed>>60 < 4; !c.Delete {
		c.Value = append(strconv.AppendInt(nil, offset, 10), bytes.Repeat([]byte("."), l.valueBytes)...)
	}
	return c
}

func (l changelog) records(from, to int64) []Change {
	var changes []Change
	for o := from; o < to; o++ {
		changes = append(changes, l.at(o))
	}
	return changes
}

// state is what a store must hold at a position.
func (l changelog) state(position int64) map[string]string {
	last := make(map[string]Change, l.keys)
	for o := range position {
		c := l.at(o)
		last[string(c.Key)] = c
	}
	state := make(map[string]string, len(last))
	for key, c := range last {
		if !c.Delete {
			state[key] = fmt.Sprintf("%s@%d", c.Value, c.Timestamp)
		}
	}
	return state
}

// check compares all that a store holds with what it must hold at its position.
func (l changelog) check(t *testing.T, s *KV) {
	t.Helper()
	got := make(map[string]string)
	for e, err := range s.Reader().Range(nil, nil, false) {
		if err != nil {
			t.Fatal(err)
		}
		got[string(e.Key)] = fmt.Sprintf("%s@%d", e.Value.Bytes, e.Value.Timestamp)
	}
	want := l.state(max(0, s.Position()))
	if maps.Equal(got, want) {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got[k] != want[k] {
			t.Fatalf("at position %d: %s is %.40q, want %.40q (%d keys, want %d)", s.Position(), k, got[k], want[k], len(got), len(want))
		}
	}
	t.Fatalf("at position %d: %d keys, want %d", s.Position(), len(got), len(want))
}

func mustOpen(t *testing.T, dir string, o Options) *KV {
	t.Helper()
	o.Logger = testLogs
	s, err := Open(dir, testID, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// copyDir copies a store's directory as a crash would leave it, without the zeros that its logs are mapped with.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // compacted away meanwhile
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		return copySparse(path, target)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copySparse(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	block, zeros := make([]byte, 1<<20), make([]byte, 1<<20)
	size := int64(0)
	for {
		n, err := io.ReadFull(in, block)
		if n > 0 && !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out.Truncate(size)
		}
		if err != nil {
			return err
		}
	}
}

// TestS10CrashMidwayOfApplyLeavesTheOldState copies the directory before each Badger transaction of a large Apply,
// the last (with the position) included. What opens is the state before it, and a replay in any batches ends right.
func TestS10CrashMidwayOfApplyLeavesTheOldState(t *testing.T) {
	t.Parallel()
	// All of it fits one memtable, so that no table is made or compacted while a directory is copied.
	log := changelog{keys: 3000, valueBytes: 700}
	const before, after = 500, 8500
	dir := filepath.Join(t.TempDir(), "live")
	var copies []string
	applying := false
	o := Options{}
	o.hooks.beforeCommit = func(n int) error {
		if applying {
			to := filepath.Join(t.TempDir(), strconv.Itoa(n))
			copyDir(t, dir, to)
			copies = append(copies, to)
		}
		return nil
	}
	s := mustOpen(t, dir, o)
	if err := s.Apply(log.records(0, before), Checkpoint{Position: before}); err != nil {
		t.Fatal(err)
	}
	applying = true
	if err := s.Apply(log.records(before, after), Checkpoint{Position: after}); err != nil {
		t.Fatal(err)
	}
	log.check(t, s)
	if len(copies) < 4 {
		t.Fatalf("only %d transactions in the Apply: nothing was torn", len(copies))
	}
	torn := 0
	for i, dir := range copies {
		s := mustOpen(t, dir, Options{})
		if s.w.stored.ts > before+1 {
			torn++
		}
		if s.Position() != before {
			t.Fatalf("copy %d opened at %d, want %d", i, s.Position(), before)
		}
		log.check(t, s)
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		for p := int64(before); p < after; {
			to := min(after, p+1+rng.Int64N(4000))
			if err := s.Apply(log.records(p, to), Checkpoint{Position: to}); err != nil {
				t.Fatal(err)
			}
			p = to
			log.check(t, s)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if torn == 0 {
		t.Error("no copy had anything above the position")
	}
}

// TestLeftoversOfAnUnfinishedApplyNeverShow replays another changelog than the one that was half applied, as after
// a topic lost its tail: nothing of the first may ever be seen.
func TestLeftoversOfAnUnfinishedApplyNeverShow(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	fail := false
	o := Options{MemTableBytes: 128 << 10}
	o.hooks.beforeCommit = func(n int) error {
		if fail && n > 2 {
			return errCrash
		}
		return nil
	}
	open := func() *KV { return mustOpen(t, dir, o) }
	s := open()
	want := "a=1 b=1 "
	changes := []Change{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b"), Value: []byte("1")}}
	if err := s.Apply(changes, Checkpoint{Position: 10}); err != nil {
		t.Fatal(err)
	}
	content := func() string {
		var out strings.Builder
		for e, err := range s.Reader().Range(nil, nil, false) {
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s=%s ", e.Key, e.Value.Bytes)
		}
		return out.String()
	}
	lost := []Change{{Key: []byte("a"), Value: []byte("lost")}, {Key: []byte("b"), Delete: true}}
	for i := range 2000 {
		lost = append(lost, Change{Key: fmt.Append(nil, "c", i), Value: bytes.Repeat([]byte("lost"), 20)})
	}
	for round, reopen := range []bool{false, true, true} {
		fail = true
		position := s.Position()
		if err := s.Apply(lost, Checkpoint{Position: position + 5000}); !errors.Is(err, errCrash) {
			t.Fatalf("Apply: %v", err)
		}
		if round == 2 { // the undo is cut short too
			if err := s.Apply(lost, Checkpoint{Position: position + 6000}); !errors.Is(err, errCrash) {
				t.Fatalf("Apply: %v", err)
			}
		}
		fail = false
		if got := content(); got != want {
			t.Fatalf("round %d: after the failed Apply: %s, want %s", round, got, want)
		}
		if reopen {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open()
		}
		if s.Position() != position || content() != want {
			t.Fatalf("round %d: opened at %d with %s, want %d with %s", round, s.Position(), content(), position, want)
		}
		key := fmt.Append(nil, "d", round)
		if err := s.Apply([]Change{{Key: key, Value: []byte("1")}}, Checkpoint{Position: position + 1}); err != nil {
			t.Fatal(err)
		}
		want += string(key) + "=1 "
		if err := s.Apply([]Change{{Key: []byte("z"), Delete: true}}, Checkpoint{Position: position + 20_000}); err != nil {
			t.Fatal(err)
		}
		if got := content(); got != want {
			t.Fatalf("round %d: past the failed Apply's timestamp: %s, want %s", round, got, want)
		}
	}
}

func TestFailedApplyLeavesPositionAndReadsUnchanged(t *testing.T) {
	t.Parallel()
	log := changelog{keys: 500, valueBytes: 100}
	fails := 0
	o := Options{MemTableBytes: 128 << 10}
	o.hooks.beforeCommit = func(n int) error {
		if fails > 0 && n == fails {
			return errCrash
		}
		return nil
	}
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
	position := int64(0)
	for round := range 20 {
		fails = round%5 + 1
		err := s.Apply(log.records(position, position+1000), Checkpoint{Position: position + 1000})
		if !errors.Is(err, errCrash) {
			t.Fatalf("round %d: Apply: %v", round, err)
		}
		if s.Position() != max(position, 0) && round > 0 {
			t.Fatalf("round %d: position %d, want %d", round, s.Position(), position)
		}
		log.check(t, s)
		fails = 0
		to := position + 1 + int64(round)*97
		if err := s.Apply(log.records(position, to), Checkpoint{Position: to}); err != nil {
			t.Fatal(err)
		}
		position = to
		log.check(t, s)
	}
}

// TestPositionIsNotSentBeforeTheDataAreAcknowledged fails each Badger transaction of an Apply in turn, when it is
// acknowledged, and looks at what a crash right then leaves. A position that was sent with the data would be there.
func TestPositionIsNotSentBeforeTheDataAreAcknowledged(t *testing.T) {
	t.Parallel()
	log := changelog{keys: 3000, valueBytes: 700} // all of it fits one memtable, as above
	const before, after = 500, 6500
	txns := 0
	for failing := 1; failing == 1 || failing < txns; failing++ {
		dir := filepath.Join(t.TempDir(), "live")
		armed := false
		o := Options{}
		o.hooks.beforeCommit = func(n int) error { txns = n; return nil }
		o.hooks.acknowledged = func(n int, err error) error {
			if armed && n == failing {
				return errCrash
			}
			return err
		}
		s := mustOpen(t, dir, o)
		if err := s.Apply(log.records(0, before), Checkpoint{Position: before}); err != nil {
			t.Fatal(err)
		}
		armed = true
		if err := s.Apply(log.records(before, after), Checkpoint{Position: after}); !errors.Is(err, errCrash) {
			t.Fatalf("transaction %d fails: Apply: %v", failing, err)
		}
		killed := filepath.Join(t.TempDir(), "killed")
		copyDir(t, dir, killed)
		if p := mustOpen(t, killed, Options{}).Position(); p != before {
			t.Errorf("transaction %d fails, and the position that is left is %d, want %d", failing, p, before)
		}
		armed = false
		if err := s.Apply(log.records(before, after), Checkpoint{Position: after}); err != nil {
			t.Fatal(err)
		}
		log.check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if txns < 3 {
		t.Errorf("an Apply of %d transactions tests nothing", txns)
	}
}

// TestApplyThatFailedAtItsVeryEndIsAllThereOrNot: Badger wrote the position and then said that it failed. In the living
// store that Apply did not happen; after a crash it may have, and then all of it.
func TestApplyThatFailedAtItsVeryEndIsAllThereOrNot(t *testing.T) {
	t.Parallel()
	log := changelog{keys: 500, valueBytes: 100}
	txns, failEnd, failUndo := 0, 0, 0
	o := Options{MemTableBytes: minMemTableBytes}
	o.hooks.beforeCommit = func(n int) error {
		if txns = n; failUndo > 0 && n >= failUndo {
			return errCrash
		}
		return nil
	}
	o.hooks.acknowledged = func(n int, err error) error {
		if failEnd > 0 && n == failEnd && err == nil {
			return errCrash
		}
		return err
	}
	half := func() (s *KV, dir string) {
		dir = filepath.Join(t.TempDir(), "store")
		s = mustOpen(t, dir, o)
		if err := s.Apply(log.records(0, 600), Checkpoint{Position: 600}); err != nil {
			t.Fatal(err)
		}
		return s, dir
	}
	s, _ := half() // learn which of its transactions is the last
	if err := s.Apply(log.records(600, 1500), Checkpoint{Position: 1500}); err != nil {
		t.Fatal(err)
	}
	last := txns
	for round := range 3 {
		s, dir := half()
		failEnd = last
		if err := s.Apply(log.records(600, 1500), Checkpoint{Position: 1500}); !errors.Is(err, errCrash) {
			t.Fatalf("Apply: %v", err)
		}
		failEnd = 0
		if s.Position() != 600 {
			t.Fatalf("position %d after a failed Apply, want 600", s.Position())
		}
		log.check(t, s)
		if round > 0 { // the undo is cut short, further on each time
			failUndo = round
			if err := s.Apply(log.records(600, 601), Checkpoint{Position: 601}); !errors.Is(err, errCrash) {
				t.Fatalf("Apply: %v", err)
			}
			failUndo = 0
			log.check(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, dir, o)
		}
		log.check(t, s)
		p := s.Position()
		if err := s.Apply(log.records(p, 2000), Checkpoint{Position: 2000}); err != nil {
			t.Fatal(err)
		}
		log.check(t, s)
	}
}

func TestFullDiskRefusesApplyAndChangesNothing(t *testing.T) {
	t.Parallel()
	log := changelog{keys: 100, valueBytes: 100}
	free := int64(1 << 40)
	o := Options{}
	o.hooks.freeBytes = func(string) (int64, error) { return free, nil }
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), o)
	for i, f := range []int64{1 << 40, defaultMinFreeBytes, 0, 1 << 40} {
		free = f
		p := max(0, s.Position())
		err := s.Apply(log.records(p, p+500), Checkpoint{Position: p + 500})
		if full := f < 1<<40; errors.Is(err, ErrNoSpace) != full || (err != nil) != full {
			t.Errorf("Apply %d with %d bytes free: %v", i, f, err)
		}
		log.check(t, s)
	}
	if s.Position() != 1000 {
		t.Errorf("position %d, want 1000", s.Position())
	}
}

const (
	kills       = 25
	childDir    = "STORE_TEST_CHILD_DIR"
	childSeed   = "STORE_TEST_CHILD_SEED"
	childMemory = 192 << 10
)

var childLog = changelog{keys: 4000, valueBytes: 60}

// TestS10KilledProcessLeavesPositionBehindData kills a process that applies a changelog, with SIGKILL and at moments
// that it does not choose, and opens what is left: it is exactly the state at its position. Then another goes on.
func TestS10KilledProcessLeavesPositionBehindData(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := filepath.Join(t.TempDir(), "store")
	rng := rand.New(rand.NewPCG(10, 10))
	last, torn := int64(-1), 0
	for round := range kills {
		killChild(t, dir, round, 1+rng.IntN(25))
		o := Options{MemTableBytes: childMemory}
		o.hooks.beforeCommit = func(int) error { torn++; return nil } // an Open writes when it has to undo
		s := mustOpen(t, dir, o)
		if s.Position() < last {
			t.Fatalf("round %d: position went back from %d to %d", round, last, s.Position())
		}
		last = s.Position()
		childLog.check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if last < 1000 || torn == 0 {
		t.Errorf("position %d and %d undone Applies after %d kills: the test tests nothing", last, torn, kills)
	}
}

// killChild starts a process that writes and kills it after so many of its Badger transactions.
func killChild(t *testing.T, dir string, seed, transactions int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildWritesUntilKilled$")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childSeed+"="+strconv.Itoa(seed))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range transactions {
		if !lines.Scan() {
			break
		}
		if !strings.HasPrefix(lines.Text(), "txn") {
			t.Errorf("the child says: %s", lines.Text())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
}

// TestChildWritesUntilKilled is the process that TestS10KilledProcess... kills. It is nothing on its own.
func TestChildWritesUntilKilled(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	seed, err := strconv.ParseUint(os.Getenv(childSeed), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	o := Options{MemTableBytes: childMemory}
	o.hooks.beforeCommit = func(n int) error {
		_, err := fmt.Fprintln(os.Stdout, "txn", n)
		return err
	}
	s := mustOpen(t, dir, o)
	for {
		from := max(0, s.Position())
		to := from + 1 + rng.Int64N(3000)
		if err := s.Apply(childLog.records(from, to), Checkpoint{Position: to}); err != nil {
			t.Fatal(err)
		}
	}
}
