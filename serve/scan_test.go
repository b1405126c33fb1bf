//go:build synctests

package serve

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
)

// The sender sends in order, reports the first failure, and lets its user go when the reader takes nothing.
func TestSenderLetsGoOfAReaderThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var sent []int
		s := newSender("n", time.Second, func(n int) error {
			if n == 2 {
				<-free
			}
			sent = append(sent, n)
			return nil
		})
		goOn := func() error { return nil }
		for n := range 3 {
			if err := s.send(t.Context(), n, goOn); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		err := s.flush(t.Context(), goOn)
		if slow, ok := errors.AsType[*iqerr.SlowReaderError](err); !ok || slow.Waited != time.Second || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		gone := errors.New("gone")
		began = time.Now()
		if err := s.send(t.Context(), 3, func() error { return gone }); !errors.Is(err, gone) || time.Since(began) > sendLook {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		close(free)
		if err := s.flush(t.Context(), goOn); err != nil || !slices.Equal(sent, []int{0, 1, 2}) {
			t.Errorf("sent %v, %v", sent, err)
		}
		s.close()
	})
}

func TestSenderReportsAFailureOfTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		s := newSender("n", time.Second, func(int) error { return broken })
		defer s.close()
		err := s.send(t.Context(), 0, func() error { return nil })
		if err == nil {
			err = s.send(t.Context(), 1, func() error { return nil })
		}
		if !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	})
}

// Batches of any size, in any direction, add up to the whole scan and know when it is done.
func TestBatchesAddUpToTheWholeScan(t *testing.T) {
	t.Parallel()
	kv, err := store.Open("", store.ID{Store: "s"}, store.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kv.Close() }()
	var changes []store.Change
	for i := range 57 {
		changes = append(changes, store.Change{Key: fmt.Appendf(nil, "%02d", i), Value: make([]byte, i*10)})
	}
	if err := kv.Apply(changes, store.Checkpoint{Position: 1}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		sn, err := kv.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		src := &source{pinnedRead: &pinnedRead{sn: sn}}
		src.scan = rowScan{sel: &query.Selection{Times: query.AllTimes}, sn: sn, reverse: rng.IntN(2) == 0}
		var keys []string
		for !src.done {
			rows, err := src.batch(t.Context(), 1+rng.IntN(20), 1+rng.IntN(2000))
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) == 0 && !src.done {
				t.Fatal("an empty batch, and more to come")
			}
			for _, row := range rows {
				keys = append(keys, string(row.GetKey()))
				src.sent(row)
			}
		}
		if src.scan.reverse {
			slices.Reverse(keys)
		}
		if len(keys) != len(changes) || !slices.IsSorted(keys) || src.at().State != query.PlaceDone {
			t.Fatalf("%v", keys)
		}
		sn.Release()
	}
}

// What a keys range of a versioned store covers is what its keys say, in bytes, at both ends.
func TestVersionRangesCoverTheirKeys(t *testing.T) {
	t.Parallel()
	keys := [][]byte{{}, {0}, {0, 0}, {0, 0xff}, {1}, []byte("a"), []byte("a\x00"), []byte("ab"), []byte("b"), {0xff}, {0xff, 0xff}}
	inside := func(sc store.Scan, key []byte) bool {
		for _, at := range []int64{math.MinInt64, 0, math.MaxInt64} {
			k := store.VersionKey(key, at)
			in := slices.Compare(k, sc.From) >= 0 && (sc.To == nil || slices.Compare(k, sc.To) < 0)
			if !in {
				return false
			}
		}
		return true
	}
	for _, a := range keys {
		prefix := versionRange(query.Keys{Prefix: a})
		for _, b := range keys {
			for open := range 4 {
				r := query.Keys{From: a, To: b, FromOpen: open&1 > 0, ToOpen: open&2 > 0}
				sc := versionRange(r)
				for _, key := range keys {
					from, to := slices.Compare(key, a), slices.Compare(key, b)
					want := (from > 0 || from == 0 && !r.FromOpen) && (to < 0 || to == 0 && !r.ToOpen)
					if got := inside(sc, key); got != want {
						t.Errorf("%q in %v: %v", key, r, got)
					}
				}
			}
			if got, want := inside(prefix, b), len(b) >= len(a) && slices.Equal(b[:len(a)], a); got != want {
				t.Errorf("%q has prefix %q: %v", b, a, got)
			}
		}
	}
}
