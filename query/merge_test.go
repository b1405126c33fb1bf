package query

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// TestMergeEqualsSorting compares the merge with sorting everything, on random sources of every kind, fed in random
// portions and taken in random ones.
func TestMergeEqualsSorting(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		kind, reverse := Kind(rng.IntN(4)), rng.IntN(2) == 0
		compare := Compare(kind, reverse)
		sources := make([][]*iqv1.Row, 1+rng.IntN(5))
		var want []*iqv1.Row
		for i := range sources {
			for range rng.IntN(20) {
				row := &iqv1.Row{Key: fmt.Appendf(nil, "%d", rng.IntN(12)), Partition: int32(i)}
				if kind != KeyValue {
					row.StartMs, row.EndMs = new(rng.Int64N(4)-2), new(rng.Int64N(4)-2)
				}
				sources[i] = append(sources[i], row)
			}
			slices.SortStableFunc(sources[i], compare)
			want = append(want, sources[i]...)
		}
		slices.SortStableFunc(want, compare) // in the order of sources among equals
		var got []*iqv1.Row
		m := NewMerge(len(sources), compare)
		for {
			source, wants := m.Wants()
			if !wants {
				from, run := m.Next(1 + rng.IntN(9))
				if len(run) == 0 {
					break
				}
				for _, row := range run {
					if row.GetPartition() != int32(from) {
						t.Fatalf("seed %d: a run of source %d has a row of %d", seed, from, row.GetPartition())
					}
				}
				got = append(got, run...)
				continue
			}
			if _, run := m.Next(9); len(run) > 0 {
				t.Fatalf("seed %d: rows while source %d is wanted", seed, source)
			}
			if len(sources[source]) == 0 {
				m.End()
				continue
			}
			n := rng.IntN(len(sources[source]) + 1)
			m.Feed(sources[source][:n])
			sources[source] = sources[source][n:]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v\nwant %v", seed, got, want)
		}
	}
}

// TestCompareIsTheOrderOfTheStores has sessions by their end before their start, as Kafka Streams stores them.
func TestCompareIsTheOrderOfTheStores(t *testing.T) {
	row := func(key string, start, end int64) *iqv1.Row {
		return &iqv1.Row{Key: []byte(key), StartMs: &start, EndMs: &end}
	}
	for _, c := range []struct {
		kind Kind
		a, b *iqv1.Row
		want int
	}{
		{KeyValue, row("a", 9, 9), row("b", 0, 0), -1},
		{KeyValue, row("a", 9, 9), row("a", 0, 0), 0},
		{KeyValue, row("a\xff", 0, 0), row("b", 0, 0), -1},
		{KeyValue, row("", 0, 0), row("\x00", 0, 0), -1},
		{Window, row("a", 1, 0), row("a", 2, 0), -1},
		{Window, row("a", -1, 0), row("a", 0, 0), -1},
		{Versioned, row("a", 5, 0), row("a", 4, 9), 1},
		{Session, row("a", 9, 10), row("a", 0, 11), -1},
		{Session, row("a", 1, 10), row("a", 2, 10), -1},
	} {
		if got := Compare(c.kind, false)(c.a, c.b); cmp.Compare(got, 0) != c.want {
			t.Errorf("%s: %v and %v: %d", c.kind, c.a, c.b, got)
		}
		if got := Compare(c.kind, true)(c.a, c.b); cmp.Compare(got, 0) != -c.want {
			t.Errorf("%s in reverse: %v and %v: %d", c.kind, c.a, c.b, got)
		}
	}
}

// TestMergeAllocs holds a merge to the lists that it begins with, whatever passes.
func TestMergeAllocs(t *testing.T) {
	const ceiling = 6
	rows := make([]*iqv1.Row, 1000)
	for i := range rows {
		rows[i] = &iqv1.Row{Key: fmt.Appendf(nil, "%04d", i)}
	}
	compare := Compare(KeyValue, false)
	got := testing.AllocsPerRun(20, func() {
		m := NewMerge(2, compare)
		m.Feed(rows)
		m.Feed(rows)
		for passed := 0; passed < 1999; {
			_, run := m.Next(1000)
			passed += len(run)
		}
	})
	if got > ceiling {
		t.Errorf("%v allocations for 2000 rows, at most %d allowed", got, ceiling)
	}
}
