package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestS33CloseWithAStuckReaderLeavesTheDatabaseToIt: a scan whose consumer does not come back must neither hang Close
// for ever nor have its tables unmapped under it.
func TestS33CloseWithAStuckReaderLeavesTheDatabaseToIt(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, Options{DrainTimeout: time.Millisecond})
	if err := s.Apply(smallLog.records(0, 1000), Checkpoint{Position: 1000}); err != nil {
		t.Fatal(err)
	}
	var last error
	n := 0
	for _, err := range s.Reader().Range(nil, nil, false) {
		if last = err; n == 0 {
			if err := s.Close(); !errors.Is(err, ErrDrain) {
				t.Errorf("Close with a stuck reader: %v", err)
			}
			if err := openFails(t, dir, testID, Options{}); !errors.Is(err, ErrLocked) {
				t.Errorf("Open beside a stuck reader: %v", err)
			}
			if s.db.IsClosed() {
				t.Error("the database was closed under a reader")
			}
		}
		n++
	}
	if !errors.Is(last, ErrClosed) || n != 2 {
		t.Errorf("the scan ended after %d entries with %v", n-1, last)
	}
	if !s.db.IsClosed() {
		t.Error("the last reader did not close the database")
	}
	smallLog.check(t, mustOpen(t, dir, Options{})) // and all is there, at once
}

// TestS33CloseUnderManyReadersNeverCrashes reads in every way while the store closes; a read on unmapped tables would
// be a SIGSEGV. Afterwards no goroutine is left.
func TestS33CloseUnderManyReadersNeverCrashes(t *testing.T) {
	dir := filled(t, Options{MemTableBytes: minMemTableBytes})
	before := runtime.NumGoroutine()
	for range 8 {
		s := mustOpen(t, dir, Options{MemTableBytes: minMemTableBytes})
		var readers sync.WaitGroup
		started := make(chan struct{}, 8)
		for r := range 8 {
			readers.Go(func() {
				for i := 0; ; i++ {
					err := readOnce(s, r%4)
					if i == 3 {
						started <- struct{}{}
					}
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range cap(started) {
			<-started
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		readers.Wait()
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+2; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func readOnce(s *KV, way int) error {
	switch way {
	case 0:
		_, _, _, err := s.Get([]byte("key-1"))
		return err
	case 1:
		sn, err := s.Snapshot()
		if err != nil {
			return err
		}
		defer sn.Release()
		_, _, err = sn.Get([]byte("key-1"))
		return err
	case 2:
		_, err := s.Stats()
		return err
	}
	n := 0
	for _, err := range s.Reader().Range(nil, nil, true) {
		if err != nil {
			return err
		}
		n++
	}
	if want := len(smallLog.state(1000)); n != want {
		return fmt.Errorf("a scan of %d entries ended as if complete, want %d", n, want)
	}
	return nil
}

// TestStoreRunsInABubble: the simulation of the whole cluster does.
func TestStoreRunsInABubble(t *testing.T) {
	for name, o := range map[string]Options{"in-memory": {InMemory: true}, "on disk": {}} {
		dir := filepath.Join(t.TempDir(), "store")
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o.Logger = testLogs
				s, err := Open(dir, testID, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Apply(smallLog.records(0, 1000), Checkpoint{Position: 1000}); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Hour) // of the bubble
				synctest.Wait()
				smallLog.check(t, s)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestSecondWriterIsRefused(t *testing.T) {
	t.Parallel()
	var s *KV
	var second error
	o := Options{InMemory: true}
	o.hooks.beforeCommit = func(int) error {
		if s != nil {
			second = s.Apply([]Change{{Key: []byte("b")}}, Checkpoint{Position: 9})
		}
		return nil
	}
	s = mustOpen(t, "", o)
	if err := s.Apply([]Change{{Key: []byte("a")}}, Checkpoint{Position: 1}); err != nil || !errors.Is(second, ErrTwoWriters) {
		t.Errorf("Apply: %v, Apply within: %v", err, second)
	}
	if s.Position() != 1 {
		t.Errorf("position %d, want 1", s.Position())
	}
}

// TestOverwrittenVersionsAreDiscarded rewrites the same keys until their versions would fill 50 MB.
func TestOverwrittenVersionsAreDiscarded(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), Options{MemTableBytes: 512 << 10})
	changes := make([]Change, 500)
	for i := range changes {
		changes[i] = Change{Key: fmt.Append(nil, "k", i), Value: bytes.Repeat([]byte("v"), 1000)}
	}
	for p := range int64(100) {
		sn, err := s.Snapshot() // readers that come and go
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(changes, Checkpoint{Position: p}); err != nil {
			t.Fatal(err)
		}
		sn.Release()
	}
	if err := s.Apply(changes, Checkpoint{Position: 100}); err != nil {
		t.Fatal(err)
	}
	stats, err := s.Stats()
	if err != nil || stats.Entries != 500 || stats.TableBytes > 15<<20 {
		t.Errorf("stats %+v err=%v, want 500 entries in less than 15 MiB", stats, err)
	}
	if len(s.w.live) != 1 {
		t.Errorf("%d states are kept, want 1", len(s.w.live))
	}
}

func TestSnapshotHoldsTheDiscardTimestampDown(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "", Options{InMemory: true})
	apply := func(p int64) {
		if err := s.Apply([]Change{{Key: []byte("k"), Value: fmt.Append(nil, p)}}, Checkpoint{Position: p}); err != nil {
			t.Fatal(err)
		}
	}
	apply(10)
	sn, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for p := int64(11); p < 40; p++ {
		apply(p)
		if len(s.w.live) != 2 || s.w.live[0].ts != 11 {
			t.Fatalf("at %d: %d states kept, oldest at timestamp %d, want the snapshot's at 11 and the newest", p, len(s.w.live), s.w.live[0].ts)
		}
	}
	sn.Release()
	apply(40)
	if len(s.w.live) != 1 {
		t.Errorf("%d states kept after Release, want 1", len(s.w.live))
	}
}

// TestMovesOfThePositionSurviveAKillUpToABound: they are cheap because most are in memory only.
func TestMovesOfThePositionSurviveAKillUpToABound(t *testing.T) {
	t.Parallel()
	live := filepath.Join(t.TempDir(), "live")
	commits := 0
	o := Options{}
	o.hooks.beforeCommit = func(int) error { commits++; return nil }
	s := mustOpen(t, live, o)
	const moves = 1000
	for p := range int64(moves) {
		if err := s.Apply(nil, Checkpoint{Position: p}); err != nil {
			t.Fatal(err)
		}
	}
	if commits > moves/maxLazyMoves+2 {
		t.Errorf("%d writes for %d moves", commits, moves)
	}
	dir := filepath.Join(t.TempDir(), "killed")
	copyDir(t, live, dir)
	if p := mustOpen(t, dir, Options{}).Position(); p > moves-1 || p < moves-1-maxLazyMoves-1 {
		t.Errorf("killed at %d, opened at %d", moves-1, p)
	}
}

func TestReclaimSpaceFreesOverwrittenLargeValues(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, dir, Options{})
	for p := range int64(4) {
		if err := s.Apply([]Change{{Key: []byte("big"), Value: bytes.Repeat([]byte{byte(p)}, 20<<20)}}, Checkpoint{Position: p}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.ReclaimSpace(); err != nil {
		t.Errorf("ReclaimSpace: %v", err)
	}
	if v, found, _, err := s.Get([]byte("big")); err != nil || !found || len(v.Bytes) != 20<<20 || v.Bytes[7] != 3 {
		t.Errorf("after ReclaimSpace: %d bytes found=%v err=%v", len(v.Bytes), found, err)
	}
}
