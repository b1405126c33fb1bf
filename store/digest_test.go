package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var digestSchemas = []Schema{
	{},
	{Kind: KindWindow, WindowSize: 5 * time.Millisecond, Retention: 20 * time.Millisecond},
	{Kind: KindSession, Retention: 20 * time.Millisecond},
	{Kind: KindVersioned, Retention: 20 * time.Millisecond},
}

// changesFrom are random changes of a kind, as a changelog has them.
func changesFrom(rng *rand.Rand, s Schema, n int) []Change {
	var all []Change
	for i := range n {
		key := []byte{'a' + byte(rng.IntN(5))}
		ms := int64(i/4 + rng.IntN(30))
		c := Change{Key: key, Value: fmt.Append(nil, i), Timestamp: ms, Delete: rng.IntN(5) == 0}
		switch s.Kind {
		case KindWindow:
			c.Key = WindowKey(key, ms)
		case KindSession:
			c.Key = SessionKey(key, ms, ms+int64(rng.IntN(3)))
		case KindVersioned:
			value := c.Value
			if c.Delete {
				value = nil
			}
			c = version(VersionKey(key, ms), value, ms)
		case KindKeyValue:
		}
		if c.Delete {
			c.Value, c.Timestamp = nil, 0
		}
		all = append(all, c)
	}
	return all
}

func openMemory(t *testing.T, s Schema) *KV {
	t.Helper()
	id := testID
	id.Schema = s
	kv, err := Open("", id, Options{InMemory: true, Logger: testLogs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kv.Close() })
	return kv
}

func digestOf(t *testing.T, r Reader, streamTime int64) (d Digest) {
	t.Helper()
	for e, err := range Visible(r, streamTime) {
		if err != nil {
			t.Fatal(err)
		}
		d.Add(e.Key, e.Value)
	}
	return d
}

// TestReplicasOfOneStateHaveOneDigest applies the same changes in batches of different sizes, which purges different things,
// and changes one entry.
func TestReplicasOfOneStateHaveOneDigest(t *testing.T) {
	t.Parallel()
	for _, schema := range digestSchemas {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 5))
			changes := changesFrom(rng, schema, 400)
			a, b := openMemory(t, schema), openMemory(t, schema)
			for _, kv := range []*KV{a, b} {
				for from := 0; from < len(changes); {
					to := min(len(changes), from+1+rng.IntN(90))
					batch := schema.Coalesce(changes[from:to], kv.Checkpoint().StreamTime)
					if err := kv.Apply(batch, Checkpoint{Position: int64(to)}); err != nil {
						t.Fatal(err)
					}
					from = to
				}
			}
			now := a.Checkpoint().StreamTime
			one, two := digestOf(t, a.Reader(), now), digestOf(t, b.Reader(), now)
			if one.Entries() == 0 || one != two {
				t.Fatalf("%s, seed %d: digests of %d and %d entries differ", schema, seed, one.Entries(), two.Entries())
			}
			last := Change{Key: []byte("a"), Value: []byte("\x01other")}
			switch schema.Kind {
			case KindWindow:
				last.Key = WindowKey(last.Key, now)
			case KindSession:
				last.Key = SessionKey(last.Key, now, now)
			case KindVersioned:
				last.Key = VersionKey(last.Key, now)
			case KindKeyValue:
			}
			if err := b.Apply([]Change{last}, Checkpoint{Position: 401}); err != nil {
				t.Fatal(err)
			}
			if two := digestOf(t, b.Reader(), now); one == two {
				t.Fatalf("%s, seed %d: another value does not show", schema, seed)
			}
		}
	}
}

func TestDigestDoesNotDependOnTheOrderAndCounts(t *testing.T) {
	t.Parallel()
	var a, b, twice Digest
	for i := range 10 {
		a.Add([]byte{byte(i)}, Value{Bytes: []byte("v"), Timestamp: int64(i)})
		b.Add([]byte{byte(9 - i)}, Value{Bytes: []byte("v"), Timestamp: int64(9 - i)})
	}
	if a != b || len(a.Bytes()) != 32 || bytes.Equal(a.Bytes(), make([]byte, 32)) {
		t.Errorf("%x and %x", a.Bytes(), b.Bytes())
	}
	twice = a
	twice.Add([]byte{3}, Value{Bytes: []byte("v"), Timestamp: 3})
	if twice == a {
		t.Error("an entry twice does not show")
	}
	for _, other := range []Digest{one("kv", "", 0), one("k", "v", 0), one("", "kv", 0), one("k", "v", 1)} {
		for _, another := range []Digest{one("x", "kv", 0), one("kv", "", 1), one("v", "k", 0)} {
			if other == another {
				t.Errorf("%x is the digest of two things", other.Bytes())
			}
		}
	}
}

func one(key, value string, ts int64) (d Digest) {
	d.Add([]byte(key), Value{Bytes: []byte(value), Timestamp: ts})
	return d
}

// TestExpectationIsWhatAStoreHolds compares stores with what a changelog makes one expect, in several passes of bounded size,
// and finds each single difference.
func TestExpectationIsWhatAStoreHolds(t *testing.T) {
	t.Parallel()
	for _, schema := range digestSchemas {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 6))
			changes := changesFrom(rng, schema, 300)
			kv := openMemory(t, schema)
			for at := 0; at < len(changes); at += 50 {
				if err := kv.Apply(schema.Coalesce(changes[at:at+50], kv.Checkpoint().StreamTime), Checkpoint{Position: int64(at + 50)}); err != nil {
					t.Fatal(err)
				}
			}
			var keys []string
			if got := compare(t, kv, changes, &keys); len(got) > 0 {
				t.Fatalf("%s, seed %d: %v", schema, seed, got)
			}
			if len(keys) == 0 {
				t.Fatalf("%s, seed %d: nothing was compared", schema, seed)
			}
			now := kv.Checkpoint().StreamTime
			keys = slices.DeleteFunc(keys, func(key string) bool { _, kept := schema.Admit(now, []byte(key)); return !kept })
			if len(keys) == 0 {
				continue // nothing that can be changed is visible
			}
			key := keys[rng.IntN(len(keys))]
			spoilt := Change{Key: []byte(key), Value: []byte("\x01spoilt"), Timestamp: 1}
			if err := kv.Apply([]Change{spoilt}, Checkpoint{Position: 301}); err != nil {
				t.Fatal(err)
			}
			if got := compare(t, kv, changes, nil); !slices.Equal(got, []string{fmt.Sprintf("%x:%d", key, DifferenceValue)}) {
				t.Fatalf("%s, seed %d: another value of %x gives %v", schema, seed, key, got)
			}
			if schema.Kind == KindVersioned {
				continue // a version cannot be removed
			}
			if err := kv.Apply([]Change{{Key: []byte(key), Delete: true}}, Checkpoint{Position: 302}); err != nil {
				t.Fatal(err)
			}
			if got := compare(t, kv, changes, nil); !slices.Equal(got, []string{fmt.Sprintf("%x:%d", key, DifferenceOnlyChangelog)}) {
				t.Fatalf("%s, seed %d: without %x: %v", schema, seed, key, got)
			}
		}
	}
}

// compare gives the differences of a store and a changelog, in three passes.
func compare(t *testing.T, kv *KV, changes []Change, keys *[]string) (all []string) {
	t.Helper()
	schema := kv.ID().Schema
	const passes = 3
	for pass := range passes {
		x := NewExpectation(schema, func(group []byte) bool { return int(group[0])%passes == pass })
		for i := range changes {
			x.Change(&changes[i])
		}
		err := x.Compare(kv.Reader(), kv.Checkpoint().StreamTime, func(key []byte, d Difference) error {
			if d != DifferenceNone {
				all = append(all, fmt.Sprintf("%x:%d", key, d))
			} else if keys != nil {
				*keys = append(*keys, string(key))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
