package store_test

import (
	"path/filepath"
	"testing"

	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/store/storetest"
)

const fixture = "../integration/testdata/kafka-streams-changelogs.tsv"

// kindHarness opens stores of any kind with options, each in a directory of its own.
func kindHarness(o store.Options, maxValueBytes int) storetest.KindHarness {
	o.Logger = quiet
	dirs := make(map[storetest.Store]string)
	open := func(tb testing.TB, dir string, schema store.Schema) storetest.Store {
		tb.Helper()
		id := storetest.TestID
		id.Schema = schema
		s, err := store.Open(dir, id, o)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = s.Close() })
		dirs[s] = dir
		return s
	}
	h := storetest.KindHarness{
		Open: func(tb testing.TB, schema store.Schema) storetest.Store {
			tb.Helper()
			return open(tb, filepath.Join(tb.TempDir(), "store"), schema)
		},
		Fixture:       fixture,
		MaxValueBytes: maxValueBytes,
	}
	if !o.InMemory {
		h.Reopen = func(tb testing.TB, s storetest.Store) storetest.Store {
			tb.Helper()
			if err := s.Close(); err != nil {
				tb.Fatal(err)
			}
			return open(tb, dirs[s], s.ID().Schema)
		}
	}
	return h
}

func TestBadgerPassesTheSuiteOfKinds(t *testing.T) {
	for name, h := range map[string]storetest.KindHarness{
		"in-memory": kindHarness(store.Options{InMemory: true}, 1<<20-100),
		"tiny":      kindHarness(store.Options{MemTableBytes: 128 << 10}, 20<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunKinds(t, h)
		})
	}
}
