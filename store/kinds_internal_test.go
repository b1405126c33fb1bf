package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func openKind(t *testing.T, dir string, schema Schema, o Options) *KV {
	t.Helper()
	o.Logger = testLogs
	id := testID
	id.Schema = schema
	s, err := Open(dir, id, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// stored is the number of entries in the database, expired or not.
func stored(t *testing.T, s *KV) int {
	t.Helper()
	n := 0
	for _, err := range s.withExpired(s.cur.Load().ts, Scan{KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestExpiredEntriesAreRemovedAsOthersAreWritten writes for many times the retention; what is in the database must stay
// in proportion to what can be seen, whatever the kind, and reopening now and then changes nothing of it.
func TestExpiredEntriesAreRemovedAsOthersAreWritten(t *testing.T) {
	t.Parallel()
	const keys, step, retention = 100, 10, 500
	for _, schema := range []Schema{
		{Kind: KindWindow, WindowSize: time.Millisecond, Retention: retention * time.Millisecond},
		{Kind: KindSession, Retention: retention * time.Millisecond},
		{Kind: KindVersioned, Retention: retention * time.Millisecond},
	} {
		t.Run(schema.Kind.String(), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			s := openKind(t, dir, schema, Options{MemTableBytes: 512 << 10})
			most := 0
			for round := range int64(250) {
				var changes []Change
				for key := range keys {
					ms := round*step + int64(key%step)
					internal := internalKey(fmt.Append(nil, "k", key), ms)
					if schema.Kind == KindSession {
						internal = internalKey(fmt.Append(nil, "k", key), ms, ms)
					}
					c := Change{Key: internal, Value: []byte("v"), Timestamp: ms}
					if schema.Kind == KindVersioned {
						c = version(internal, []byte("v"), ms)
						if key%2 == 1 && round%100 > 20 { // half of the keys are mostly gone
							c = version(internal, nil, ms)
						}
					}
					changes = append(changes, c)
				}
				if err := s.Apply(changes, Checkpoint{Position: (round + 1) * keys}); err != nil {
					t.Fatal(err)
				}
				if round%20 == 19 {
					most = max(most, stored(t, s))
				}
				if round%60 == 59 {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = openKind(t, dir, schema, Options{MemTableBytes: 512 << 10})
				}
			}
			const live = keys * retention / step
			if most > 2*live {
				t.Errorf("up to %d entries are stored, want at most twice the %d that can be seen", most, live)
			}
			if schema.Kind != KindVersioned {
				return
			}
			// The stream time goes far ahead: what is left is one version of each key that has a value.
			for i := range int64(20) {
				c := version(internalKey([]byte("z"), 1e9+i), []byte("z"), 1e9+i)
				if err := s.Apply([]Change{c}, Checkpoint{Position: 1e6 + i}); err != nil {
					t.Fatal(err)
				}
			}
			again := slices.Repeat([]Change{version(internalKey([]byte("z"), 1e9+19), []byte("z"), 1e9+19)}, 100)
			for i := range int64(100) {
				if err := s.Apply(again, Checkpoint{Position: 2e6 + i}); err != nil {
					t.Fatal(err)
				}
			}
			if n := stored(t, s); n != keys/2+20 {
				t.Errorf("%d versions are left, want %d", n, keys/2+20)
			}
		})
	}
}

// TestRestingPurgerLooksAtNothing: a store whose oldest entry is not due costs an Apply no scan.
func TestRestingPurgerLooksAtNothing(t *testing.T) {
	t.Parallel()
	s := openKind(t, "", Schema{Kind: KindWindow, WindowSize: time.Millisecond, Retention: time.Second}, Options{InMemory: true})
	put := func(ms, position int64) {
		for range purgeAtLeast { // enough for a portion
			if err := s.Apply([]Change{{Key: internalKey([]byte("k"), ms)}}, Checkpoint{Position: position}); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(5000, 1)
	put(5500, 2)
	if p := s.w.purge; !p.rested || p.due != 5000 {
		t.Errorf("after two windows: %+v, want a rest until 5000", p)
	}
	put(4800, 3) // out of order
	if p := s.w.purge; !p.rested || p.due != 4800 {
		t.Errorf("after a late window: %+v, want a rest until 4800", p)
	}
	put(5900, 4)
	put(5901, 5)
	if n := stored(t, s); n != 4 {
		t.Errorf("%d windows stored, want 4 of 5: the one at 4800 is due", n)
	}
}

// TestTornApplyLeavesStreamTimeAndExpiryAsTheyWere fails Applies that would expire what is there, at each Badger
// transaction: neither a living store nor a reopened one may lose anything.
func TestTornApplyLeavesStreamTimeAndExpiryAsTheyWere(t *testing.T) {
	t.Parallel()
	schema := Schema{Kind: KindWindow, WindowSize: time.Millisecond, Retention: time.Second}
	dir := filepath.Join(t.TempDir(), "store")
	fails := 0
	o := Options{MemTableBytes: 128 << 10}
	o.hooks.beforeCommit = func(n int) error {
		if fails > 0 && n == fails {
			return errCrash
		}
		return nil
	}
	s := openKind(t, dir, schema, o)
	batch := func(base int64, value string) (changes []Change) {
		for i := range 2000 {
			key := internalKey(fmt.Appendf(nil, "k%05d", i), base+int64(i%400))
			changes = append(changes, Change{Key: key, Value: bytes.Repeat([]byte(value), 40), Timestamp: base})
		}
		return changes
	}
	if err := s.Apply(batch(1000, "a"), Checkpoint{Position: 1}); err != nil {
		t.Fatal(err)
	}
	check := func(when string, streamTime int64, value string) {
		t.Helper()
		w, err := NewWindowReader(s.Reader())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for e, err := range w.FetchRange(KeyRange{}, AllTimes, ScanOptions{}) {
			if err != nil || !strings.HasPrefix(string(e.Value.Bytes), value) {
				t.Fatalf("%s: %s at %d is %.5s, err=%v", when, e.Key, e.Start, e.Value.Bytes, err)
			}
			n++
		}
		if n != 2000 || s.Checkpoint().StreamTime != streamTime {
			t.Fatalf("%s: %d windows at stream time %d, want 2000 at %d", when, n, s.Checkpoint().StreamTime, streamTime)
		}
	}
	check("at first", 1399, "a")
	// The first of these expires everything, the second removes it.
	second := batch(10_000, "b")
	for position, next := range [][]Change{second, batch(10_000, "c")} {
		was := s.Checkpoint().StreamTime
		value := []string{"a", "b"}[position]
		for fails = 1; fails <= 3; fails++ {
			if err := s.Apply(next, Checkpoint{Position: int64(position) + 2}); !errors.Is(err, errCrash) {
				t.Fatalf("Apply: %v", err)
			}
			check("after a torn Apply", was, value)
			if fails == 2 {
				fails = 0
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openKind(t, dir, schema, o)
				check("after a torn Apply, reopened", was, value)
				fails = 2
			}
		}
		fails = 0
		if err := s.Apply(next, Checkpoint{Position: int64(position) + 2}); err != nil {
			t.Fatal(err)
		}
		check("after it went through", 10_399, []string{"b", "c"}[position])
	}
	if n := stored(t, s); n != 2000 {
		t.Errorf("%d windows are stored, want 2000", n)
	}
}

func TestDirectoryOfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	schemas := []Schema{
		{},
		{Kind: KindWindow, WindowSize: time.Minute, Retention: time.Hour},
		{Kind: KindWindow, WindowSize: time.Second, Retention: time.Hour},
		{Kind: KindWindow, WindowSize: time.Minute, Retention: 2 * time.Hour},
		{Kind: KindSession, Retention: time.Hour},
		{Kind: KindVersioned, Retention: time.Hour},
	}
	for i, schema := range schemas {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		s := openKind(t, dir, schema, Options{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, other := range schemas {
			id := testID
			id.Schema = other
			s, err := Open(dir, id, Options{Logger: testLogs})
			var refused *IdentityError
			if errors.As(err, &refused) != (other != schema) {
				t.Errorf("a %s opened as %s: %v", schema, other, err)
			}
			if err == nil {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			} else if text := err.Error(); !strings.Contains(text, schema.String()) || !strings.Contains(text, other.String()) {
				t.Errorf("the error does not name both: %s", text)
			}
		}
	}
}

func TestBadSchemasAreRefusedByName(t *testing.T) {
	t.Parallel()
	for want, schema := range map[string]Schema{
		"Schema.Kind is 4":                     {Kind: 4, Retention: time.Hour},
		"Schema.Retention is 1h0m0s, want 0s":  {Retention: time.Hour},
		"Schema.WindowSize is 1m0s, want 0s":   {Kind: KindSession, WindowSize: time.Minute, Retention: time.Hour},
		"Schema.WindowSize is 0s, want whole":  {Kind: KindWindow, Retention: time.Hour},
		"Schema.Retention is 0s, want whole":   {Kind: KindVersioned},
		"Schema.Retention is 1ms, want at":     {Kind: KindWindow, WindowSize: time.Second, Retention: time.Millisecond},
		"Schema.Retention is 1.5ms, want whol": {Kind: KindSession, Retention: 1500 * time.Microsecond},
		"Schema.Retention is -1s, want whole ": {Kind: KindSession, Retention: -time.Second},
	} {
		id := testID
		id.Schema = schema
		if _, err := Open("", id, Options{InMemory: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", schema, err, want)
		}
	}
}

// TestPlainStoreKeepsItsFormat: a key-value store writes the bytes that it wrote before there were other kinds.
func TestPlainStoreKeepsItsFormat(t *testing.T) {
	t.Parallel()
	b, err := encodeID(testID)
	if err != nil {
		t.Fatal(err)
	}
	const identity = `{"application":"app","store":"counts","partition":3,"changelog":"app-counts-changelog","topic_id":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`
	if string(b) != identity {
		t.Errorf("identity entry:\n got %s\nwant %s", b, identity)
	}
	s := mustOpen(t, "", Options{InMemory: true})
	if err := s.Apply([]Change{{Key: []byte("k"), Value: []byte("v"), Timestamp: 5}}, Checkpoint{Position: 9, Input: map[TopicPartition]int64{{"in", 1}: 4}}); err != nil {
		t.Fatal(err)
	}
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	for key, want := range map[string]string{
		string(positionKey): "\x01\x12\x0a\x01\x01\x02in\x02\x08",
		"dk":                "\x00\x00\x00\x00\x00\x00\x00\x05\x00v",
	} {
		got, _, err := getMeta(txn, []byte(key))
		if err != nil || string(got) != want {
			t.Errorf("entry %q: %q, want %q, err=%v", key, got, want, err)
		}
	}
}

func FuzzInternalKeysSortByKeyThenTime(f *testing.F) {
	f.Add([]byte("a"), int64(1), []byte("a\x00"), int64(0))
	f.Add([]byte{}, int64(-1), []byte{0}, int64(1))
	f.Add([]byte{0, 0xff}, int64(math.MinInt64), []byte{0, 1}, int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, keyA []byte, timeA int64, keyB []byte, timeB int64) {
		schema := Schema{Kind: KindVersioned, Retention: time.Hour}
		a, b := internalKey(keyA, timeA), internalKey(keyB, timeB)
		want := bytes.Compare(keyA, keyB)
		if want == 0 {
			want = cmp.Compare(timeA, timeB)
		}
		if got := bytes.Compare(a, b); got != want {
			t.Fatalf("%q@%d against %q@%d: %d, want %d", keyA, timeA, keyB, timeB, got, want)
		}
		escapedKey, at, _, err := schema.split(a)
		if err != nil || at != timeA {
			t.Fatalf("%q@%d came back at %d, err=%v", keyA, timeA, at, err)
		}
		if key, err := unescape(escapedKey); err != nil || !bytes.Equal(key, keyA) {
			t.Fatalf("%q came back as %q, err=%v", keyA, key, err)
		}
		if _, err := unescape(keyB); err == nil {
			if back := appendEscaped(nil, must(unescape(keyB))); !bytes.Equal(back, keyB) {
				t.Fatalf("%q unescapes and escapes to %q", keyB, back)
			}
		}
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func FuzzChangelogRecordsRoundTrip(f *testing.F) {
	f.Add(uint8(0), []byte("key"), []byte("value"), int64(5), true)
	f.Add(uint8(1), append([]byte("alice"), 0, 0, 1, 0x8b, 0xcf, 0xe6, 4, 0x40, 0, 0, 0, 0), []byte{}, int64(5), true)
	f.Add(uint8(2), append([]byte("alice"), make([]byte, 16)...), []byte(nil), int64(5), false)
	f.Add(uint8(3), []byte{0, 0xff, 0}, []byte{}, int64(-5), true)
	f.Fuzz(func(t *testing.T, kind uint8, key, value []byte, timestamp int64, present bool) {
		schema := Schema{Kind: Kind(kind % 4)}
		if value == nil && present {
			value = []byte{}
		} else if !present {
			value = nil
		}
		c, err := schema.FromChangelog(key, value, timestamp)
		if err != nil {
			return
		}
		if err := schema.CheckChange(&c); err != nil {
			t.Fatalf("%q becomes the key %q: %v", key, c.Key, err)
		}
		k, v, ts, err := schema.ToChangelog(c)
		if err != nil || !bytes.Equal(k, key) || !bytes.Equal(v, value) || (v == nil) != (value == nil) || ts != timestamp {
			t.Fatalf("%s %q=%q@%d came back as %q=%q@%d, err=%v", schema.Kind, key, value, timestamp, k, v, ts, err)
		}
	})
}

// TestCoalescedChangesGiveTheSameState compares Apply of all changes with Apply of what Coalesce leaves of them.
func TestCoalescedChangesGiveTheSameState(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		schema := Schema{Kind: KindVersioned, Retention: 10 * time.Millisecond}
		start := int64(rng.IntN(30))
		var changes []Change
		for range rng.IntN(30) {
			ms := int64(rng.IntN(40))
			changes = append(changes, version(internalKey([]byte{'a' + byte(rng.IntN(3))}, ms), []byte{byte(rng.IntN(250))}, ms))
		}
		state := func(changes []Change) (string, int64) {
			kept, now := map[string]string{}, start
			for _, c := range changes {
				var ok bool
				if now, ok = schema.Admit(now, c.Key); ok {
					kept[string(c.Key)] = string(c.Value)
				}
			}
			return fmt.Sprint(kept), now
		}
		less := schema.Coalesce(changes, start)
		seen := map[string]bool{}
		for _, c := range less {
			if seen[string(c.Key)] {
				t.Fatalf("seed %d: a key is there twice", seed)
			}
			seen[string(c.Key)] = true
		}
		a, nowA := state(changes)
		b, nowB := state(less)
		if a != b || nowA != nowB {
			t.Fatalf("seed %d: %s at %d, want %s at %d", seed, b, nowB, a, nowA)
		}
	}
	changes := []Change{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b")}, {Key: []byte("a"), Value: []byte("2")}}
	if got := (Schema{}).Coalesce(changes, NoStreamTime); len(got) != 2 || string(got[0].Key) != "b" || string(got[1].Value) != "2" {
		t.Errorf("plain keys: %+v", got)
	}
	if !slices.Equal(changes[0].Value, []byte("1")) {
		t.Error("Coalesce wrote to what it was given")
	}
}
