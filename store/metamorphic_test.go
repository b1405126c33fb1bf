package store_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/store/storetest"
)

// TestSameHistorySameOutput plays random histories on the fake, on Badger in memory, on Badger with small memtables,
// and on one that is closed and opened again in between. All must print the same.
func TestSameHistorySameOutput(t *testing.T) {
	tiny := store.Options{MemTableBytes: 128 << 10}
	for seed := range uint64(3) {
		want := history(t, seed, storetest.NewFake(storetest.TestID), nil)
		for name, subject := range map[string]struct {
			options store.Options
			reopen  bool
		}{
			"in-memory":         {store.Options{InMemory: true}, false},
			"tiny":              {tiny, false},
			"tiny, reopened":    {tiny, true},
			"default, reopened": {store.Options{}, true},
		} {
			t.Run(fmt.Sprintf("seed=%d/%s", seed, name), func(t *testing.T) {
				t.Parallel()
				h := harness(subject.options, 0)
				var reopen func(storetest.Store) storetest.Store
				if subject.reopen {
					reopen = func(s storetest.Store) storetest.Store { return h.Reopen(t, s) }
				}
				compare(t, history(t, seed, h.Open(t), reopen), want)
			})
		}
	}
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("step %d:\n got %s\nwant %s", i, got[i], want[i])
		}
	}
}

// history plays the history of a seed and returns what each step showed. With reopen the store is closed and opened
// again now and then, which must not show; snapshots end then.
func history(t *testing.T, seed uint64, s storetest.Store, reopen func(storetest.Store) storetest.Store) []string {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 77))
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	type held struct {
		sn   *store.Snapshot
		want string
	}
	var snaps []held
	position := int64(0)
	for step := range 160 {
		switch op := rng.IntN(10); {
		case op < 4:
			changes := randomChanges(rng, step)
			position += int64(len(changes)) + rng.Int64N(3)
			at := store.Checkpoint{Position: position}
			if rng.IntN(2) == 0 {
				at.Input = map[store.TopicPartition]int64{{Topic: "in", Partition: rng.Int32N(3)}: position * 2}
			}
			say("apply %d: %v", len(changes), s.Apply(changes, at))
		case op < 5:
			position += rng.Int64N(100)
			say("move: %v %d %v", s.Apply(nil, store.Checkpoint{Position: position}), s.Position(), s.Checkpoint().Input)
		case op < 7:
			v, found, at, err := s.Get(randomKey(rng))
			say("get: %.20q %d %d %v at %d %v", v.Bytes, len(v.Bytes), v.Timestamp, found, at.Position, err)
		case op < 9:
			from, to, reverse := randomKey(rng), randomKey(rng), rng.IntN(2) == 0
			if bytes.Compare(from, to) > 0 {
				from, to = to, from
			}
			if rng.IntN(3) == 0 {
				to = nil
			}
			say("range: %s", digest(t, s.Reader(), from, to, reverse))
		case reopen != nil: // a snapshot does not outlive its store
			rng.IntN(3)
		case len(snaps) < 3:
			rng.IntN(3) // the same use of random numbers in each branch
			sn, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			snaps = append(snaps, held{sn, digest(t, sn, nil, nil, false)})
		default:
			i := rng.IntN(3)
			if got := digest(t, snaps[i].sn, nil, nil, false); got != snaps[i].want {
				t.Fatalf("step %d: a snapshot changed: %s, was %s", step, got, snaps[i].want)
			}
			snaps[i].sn.Release()
			snaps = append(snaps[:i], snaps[i+1:]...)
		}
		if reopen != nil && step%41 == 40 {
			s = reopen(s)
		}
	}
	say("all: %s", digest(t, s.Reader(), nil, nil, true))
	for _, h := range snaps {
		h.sn.Release()
	}
	return out
}

var longPrefix = strings.Repeat("p", 8192)

func randomKey(rng *rand.Rand) []byte {
	switch rng.IntN(12) {
	case 0:
		return []byte{}
	case 1:
		return []byte(longPrefix[:8190+rng.IntN(3)])
	case 2:
		return fmt.Appendf(nil, "%s%d", longPrefix, rng.IntN(6))
	}
	return fmt.Append(nil, "k", rng.IntN(300))
}

func randomChanges(rng *rand.Rand, step int) []store.Change {
	changes := make([]store.Change, 1+rng.IntN(200))
	for i := range changes {
		changes[i].Key = randomKey(rng)
		changes[i].Timestamp = int64(step)
		switch rng.IntN(6) {
		case 0, 1:
			changes[i].Delete = true
		case 2: // an empty value
		case 3:
			changes[i].Value = bytes.Repeat([]byte{byte(step)}, rng.IntN(5000)) // beyond the threshold of a small memtable
		default:
			changes[i].Value = fmt.Append(nil, step, ":", i)
		}
	}
	return changes
}

// digest is the number of entries of a range and a checksum over them in order.
func digest(t *testing.T, r store.Reader, from, to []byte, reverse bool) string {
	t.Helper()
	sum, n := crc32.NewIEEE(), 0
	for e, err := range r.Range(from, to, reverse) {
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprint(sum, len(e.Key), len(e.Value.Bytes), e.Value.Timestamp)
		_, _ = sum.Write(e.Key)
		_, _ = sum.Write(e.Value.Bytes)
		n++
	}
	return fmt.Sprintf("%d entries, %08x", n, sum.Sum32())
}
