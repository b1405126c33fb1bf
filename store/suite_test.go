package store_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/store/storetest"
)

var quiet = slog.New(slog.DiscardHandler)

// harness opens stores with options, each in a directory of its own.
func harness(o store.Options, maxValueBytes int) storetest.Harness {
	o.Logger = quiet
	dirs := make(map[storetest.Store]string)
	open := func(tb testing.TB, dir string) storetest.Store {
		tb.Helper()
		s, err := store.Open(dir, storetest.TestID, o)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = s.Close() })
		dirs[s] = dir
		return s
	}
	h := storetest.Harness{
		Open: func(tb testing.TB) storetest.Store {
			tb.Helper()
			return open(tb, filepath.Join(tb.TempDir(), "store"))
		},
		MaxValueBytes: maxValueBytes,
	}
	if !o.InMemory {
		h.Reopen = func(tb testing.TB, s storetest.Store) storetest.Store {
			tb.Helper()
			if err := s.Close(); err != nil {
				tb.Fatal(err)
			}
			return open(tb, dirs[s])
		}
	}
	return h
}

func TestBadgerPassesTheSuite(t *testing.T) {
	for name, h := range map[string]storetest.Harness{
		"defaults":  harness(store.Options{}, 21<<20),
		"in-memory": harness(store.Options{InMemory: true}, 1<<20-100),
		"tiny":      harness(store.Options{MemTableBytes: 128 << 10}, 21<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, h)
		})
	}
}
