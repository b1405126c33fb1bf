package node

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/topology"
)

// casts is a multicast partitioner: "all-*" to every partition, "pair-*" to the first and the last, "drop-*" to none, the
// rest by the hash.
func casts() partitioner.Partitioner {
	return partitioner.Custom("casts", nil, func(_ string, key, _ []byte, n int32) partitioner.Choice {
		switch kind, _, _ := strings.Cut(string(key), "-"); kind {
		case "all":
			return partitioner.All()
		case "pair":
			return partitioner.Partitions(0, n-1)
		case "drop":
			return partitioner.Drop()
		}
		return partitioner.Default()
	})
}

func known(tb testing.TB) *partitioner.Registry {
	tb.Helper()
	r, err := partitioner.NewRegistry(casts())
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// A placement says the same as asking all partitions of the key one by one, whatever the partitioner.
func TestPlacementIsThatOfALookup(t *testing.T) {
	t.Parallel()
	r := known(t)
	random := rand.New(rand.NewPCG(1, 2))
	keys := [][]byte{{}, []byte("all-1"), []byte("pair-1"), []byte("drop-1")}
	for range 200 {
		keys = append(keys, fmt.Appendf(nil, "k%d", random.IntN(1e6)))
	}
	for _, name := range r.Names() {
		p, err := r.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, count := range []int32{1, 3, 8} {
			for partition := range count {
				place, number := newPlacement(r, name, partition, count), uint64(0)
				for _, key := range keys {
					in, err := partitioner.Lookup(p, key, count)
					if err != nil {
						t.Fatal(err)
					}
					number++
					if got, want := place.holds(number, key), slices.Contains(in, partition); got != want {
						t.Errorf("%s: key %q in partition %d of %d: %v, want %v", name, key, partition, count, got, want)
					}
				}
			}
		}
	}
	if newPlacement(r, "nobody's", 0, 3) != nil {
		t.Error("an unknown partitioner gave a placement")
	}
}

// run is a run of a task of partition 0 of 3 with two stores.
type judgedRun struct {
	counts *runCounts
	stores []*keyCheck
	offset int64
}

func newJudgedRun(tb testing.TB, partitioner string) *judgedRun {
	tb.Helper()
	r := &judgedRun{counts: &runCounts{}}
	place := newPlacement(known(tb), partitioner, 0, 3)
	for _, store := range []string{"one", "two"} {
		r.stores = append(r.stores, &keyCheck{store: store, place: place, run: r.counts})
	}
	return r
}

// process is a record with a key, during which each of the stores is used under the keys of uses.
func (r *judgedRun) process(key []byte, uses ...string) {
	r.offset++
	r.counts.begin(&kgo.Record{Topic: "in", Partition: 0, Offset: r.offset, Key: key})
	for _, used := range uses {
		for _, s := range r.stores {
			s.uses([]byte(used))
		}
	}
}

// elsewhere is a key that murmur2 does not put into partition 0 of 3.
func elsewhere(prefix string) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint(prefix, i); partitioner.Murmur2().Partition([]byte(key), 3) != 0 {
			return key
		}
	}
}

func here(prefix string) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint(prefix, i); partitioner.Murmur2().Partition([]byte(key), 3) == 0 {
			return key
		}
	}
}

// What is judged: a record whose own key a store is used by, once for each store, however often the store is used.
func TestRecordIsJudgedByTheStoresUsedUnderItsKey(t *testing.T) {
	t.Parallel()
	wrong, right := elsewhere("w"), here("r")
	for _, test := range []struct {
		what string
		key  []byte
		uses []string
		want int64
	}{
		{"in its place", []byte(right), []string{right}, 0},
		{"elsewhere", []byte(wrong), []string{wrong}, 1},
		{"used three times", []byte(wrong), []string{wrong, wrong, wrong}, 1},
		{"its own key among others", []byte(wrong), []string{right, wrong, "other"}, 1},
		{"no store used", []byte(wrong), nil, 0},
		{"re-keyed in the same sub-topology", []byte(wrong), []string{right, elsewhere("x")}, 0},
		{"no key", nil, []string{wrong, ""}, 0},
	} {
		r := newJudgedRun(t, "murmur2")
		r.process(test.key, test.uses...)
		for _, s := range []string{"one", "two"} {
			var got int64
			if m := r.counts.misplaced[misplacedAt{s, metadata.TopicPartition{Topic: "in"}}]; m != nil {
				got = m.Records
			}
			if got != test.want {
				t.Errorf("%s: store %s counts %d, want %d", test.what, s, got, test.want)
			}
		}
	}
}

// A key that the partitioner drops or puts into several partitions is judged by all of them.
func TestMulticastKeysAreJudgedByAllTheirPartitions(t *testing.T) {
	t.Parallel()
	r := newJudgedRun(t, "casts")
	for _, key := range []string{"all-1", "pair-1", "drop-1"} {
		r.process([]byte(key), key)
	}
	m := r.counts.misplaced[misplacedAt{"one", metadata.TopicPartition{Topic: "in"}}]
	if m == nil || m.Records != 1 || string(m.FirstKey) != "drop-1" || len(m.Expected) != 0 {
		t.Errorf("%+v; want the dropped key alone, expected nowhere", m)
	}
}

// The first example is that of the first committed record, with a long key cut, and it stays; what was aborted never shows.
func TestCountsAreOfCommittedRecordsWithTheFirstExample(t *testing.T) {
	t.Parallel()
	var met committedCounts
	now := time.Unix(1_000, 0)
	log := slog.New(slog.DiscardHandler)
	sink := &topology.Sink{Name: "out", Topic: "topic"}

	aborted := newJudgedRun(t, "murmur2")
	aborted.process([]byte(elsewhere("aborted")), elsewhere("aborted"))
	aborted.counts.drop(sink)
	if m, d := met.misplaced(), met.dropped(); len(m)+len(d) != 0 {
		t.Fatalf("uncommitted records show: %v, %v", m, d)
	}

	long := elsewhere(strings.Repeat("x", 100))
	r := newJudgedRun(t, "murmur2")
	r.stores = r.stores[:1]
	r.process([]byte(here("r")), here("r"))
	r.process([]byte(long), long)
	r.counts.drop(sink)
	r.counts.drop(sink)
	met.commit(r.counts, now, log)
	r.process([]byte(elsewhere("later")), elsewhere("later"))
	r.counts.drop(sink)
	met.commit(r.counts, now, log)
	met.commit(r.counts, now, log) // of nothing

	wantMisplaced := []metadata.Misplaced{{
		Store: "one", TopicPartition: metadata.TopicPartition{Topic: "in"}, Records: 2, FirstOffset: 2, FirstKey: []byte(long)[:64],
		Expected: []int32{partitioner.Murmur2().Partition([]byte(long), 3)},
	}}
	if got := met.misplaced(); !reflect.DeepEqual(got, wantMisplaced) {
		t.Errorf("misplaced: %+v\nwant %+v", got, wantMisplaced)
	}
	if got, want := met.dropped(), []metadata.Dropped{{Sink: "out", Topic: "topic", Records: 3}}; !slices.Equal(got, want) {
		t.Errorf("dropped: %+v, want %+v", got, want)
	}
	for _, m := range met.misplaced() {
		if err := (metadata.Report{Node: "n", Address: "n:1", Misplaced: []metadata.Misplaced{m}, Dropped: met.dropped()}).Validate(); err != nil {
			t.Errorf("a router refuses the report: %v", err)
		}
	}
}

// The log tells of each store and topic, and of each sink, at most every ten seconds.
func TestMisplacedRecordsAreLoggedEveryTenSecondsAtMost(t *testing.T) {
	t.Parallel()
	var met committedCounts
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	r := newJudgedRun(t, "murmur2")
	start := time.Unix(1_000, 0)
	for _, step := range []struct {
		at   time.Duration
		want int // lines
	}{{0, 3}, {time.Second, 0}, {misplacedLogEvery - 1, 0}, {misplacedLogEvery, 3}, {2*misplacedLogEvery - 1, 0}} {
		out.Reset()
		r.process([]byte(elsewhere("w")), elsewhere("w"))
		r.counts.drop(&topology.Sink{Name: "out", Topic: "topic"})
		met.commit(r.counts, start.Add(step.at), log)
		if got := strings.Count(out.String(), "level=WARN"); got != step.want {
			t.Errorf("after %s: %d lines, want %d:\n%s", step.at, got, step.want, out.String())
		}
	}
}

// Judging a record costs one hash and no memory where the partitioner is a built-in one.
func TestJudgingARecordAllocatesNothing(t *testing.T) {
	r := newJudgedRun(t, "murmur2")
	rec := &kgo.Record{Topic: "in", Key: []byte(here("r"))}
	if n := testing.AllocsPerRun(100, func() { judgeOnce(r, rec) }); n != 0 {
		t.Errorf("%v allocations for a record", n)
	}
}

func judgeOnce(r *judgedRun, rec *kgo.Record) {
	r.counts.begin(rec)
	for _, s := range r.stores {
		s.uses(rec.Key) // Get
		s.uses(rec.Key) // Put
	}
}

func BenchmarkJudgeRecord(b *testing.B) {
	for _, name := range []string{"murmur2", "crc32", "fnv1a", "consistent_random", "casts"} {
		for _, size := range []int{8, 64} {
			b.Run(fmt.Sprintf("partitioner=%s/key=%d", name, size), func(b *testing.B) {
				r := newJudgedRun(b, name)
				rec := &kgo.Record{Topic: "in", Key: []byte(here(strings.Repeat("k", size-1)))}
				b.ReportAllocs()
				for b.Loop() {
					judgeOnce(r, rec)
				}
			})
		}
	}
}
