package storetest_test

import (
	"errors"
	"testing"

	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/store/storetest"
)

func TestFakePassesTheSuite(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(testing.TB) storetest.Store { return storetest.NewFake(storetest.TestID) },
		Reopen: func(tb testing.TB, s storetest.Store) storetest.Store {
			tb.Helper()
			if err := s.Close(); err != nil {
				tb.Fatal(err)
			}
			s.(*storetest.Fake).Reopen()
			return s
		},
		MaxValueBytes: 20 << 20,
	})
}

func TestFakePassesTheSuiteOfKinds(t *testing.T) {
	storetest.RunKinds(t, storetest.KindHarness{
		Open: func(_ testing.TB, schema store.Schema) storetest.Store {
			id := storetest.TestID
			id.Schema = schema
			return storetest.NewFake(id)
		},
		Reopen: func(tb testing.TB, s storetest.Store) storetest.Store {
			tb.Helper()
			if err := s.Close(); err != nil {
				tb.Fatal(err)
			}
			s.(*storetest.Fake).Reopen()
			return s
		},
		Fixture:       "../../integration/testdata/kafka-streams-changelogs.tsv",
		MaxValueBytes: 20 << 20,
	})
}

func TestFailedFakeApplyChangesNothing(t *testing.T) {
	f := storetest.NewFake(storetest.TestID)
	boom := errors.New("boom")
	f.FailApply(func(n int, _ []store.Change, _ store.Checkpoint) error {
		if n == 2 {
			return boom
		}
		return nil
	})
	change := []store.Change{{Key: []byte("k"), Value: []byte("1")}}
	for n, want := range []error{nil, boom, nil} {
		before := f.Position()
		if err := f.Apply(change, store.Checkpoint{Position: int64(n)}); !errors.Is(err, want) {
			t.Errorf("Apply %d: %v, want %v", n+1, err, want)
		}
		if want != nil && f.Position() != before {
			t.Errorf("a failed Apply moved the position to %d", f.Position())
		}
	}
	if calls := f.Calls(); len(calls) != 3 || !errors.Is(calls[1].Err, boom) {
		t.Errorf("calls: %+v", calls)
	}
}
