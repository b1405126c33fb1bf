package store

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkScan is the way of a prefix scan with values of 100 bytes, and of counting.
func BenchmarkScan(b *testing.B) {
	s := benchStore(b)
	kv, err := NewKeyValueReader(s.Reader())
	if err != nil {
		b.Fatal(err)
	}
	prefix := KeyRange{Prefix: []byte("key-0000000")} // all 100,000
	for name, o := range map[string]ScanOptions{"values": {}, "reverse": {Reverse: true}, "keys-only": {KeysOnly: true}} {
		b.Run("prefix/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range kv.FetchRange(prefix, o) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != benchKeys {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64(b.N)*benchKeys/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// benchKind has 2,000 keys with 50 windows or versions each, with values of 100 bytes, on disk.
func benchKind(b *testing.B, schema Schema) *KV {
	b.Helper()
	id := testID
	id.Schema = schema
	s, err := Open(filepath.Join(b.TempDir(), "store"), id, Options{Logger: testLogs})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	for round := range int64(50) {
		var changes []Change
		for key := range 2000 {
			changes = append(changes, Change{Key: internalKey(benchKey(key), round*1000), Value: make([]byte, 100)})
			changes[key].Value[0] = versionPresent
		}
		if err := s.Apply(changes, Checkpoint{Position: round}); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func BenchmarkWindowFetch(b *testing.B) {
	s := benchKind(b, Schema{Kind: KindWindow, WindowSize: time.Second, Retention: time.Hour})
	w, err := NewWindowReader(s.Reader())
	if err != nil {
		b.Fatal(err)
	}
	for _, windows := range []int64{1, 10, 50} {
		b.Run(fmt.Sprintf("keys=2000/windows=%d", windows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := int64(0)
				for _, err := range w.Fetch(benchKey(rand.IntN(2000)), Times{0, (windows - 1) * 1000}, ScanOptions{}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != windows {
					b.Fatal(n)
				}
			}
		})
	}
	b.Run("keys=2000/get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, found, err := w.Get(benchKey(rand.IntN(2000)), 7000); err != nil || !found {
				b.Fatal(found, err)
			}
		}
	})
	b.Run("range/one-time-of-50", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for _, err := range w.FetchRange(KeyRange{}, Times{7000, 7000}, ScanOptions{}) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 2000 {
				b.Fatal(n)
			}
		}
		b.ReportMetric(float64(b.N)*2000/b.Elapsed().Seconds(), "rows/s")
	})
}

func BenchmarkVersionedGet(b *testing.B) {
	s := benchKind(b, Schema{Kind: KindVersioned, Retention: time.Hour})
	v, err := NewVersionedReader(s.Reader())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("latest", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, found, err := v.Get(benchKey(rand.IntN(2000))); err != nil || !found {
				b.Fatal(found, err)
			}
		}
	})
	b.Run("as-of", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, found, err := v.GetAsOf(benchKey(rand.IntN(2000)), 25_500); err != nil || !found {
				b.Fatal(found, err)
			}
		}
	})
}

// BenchmarkWindowApply writes windows of a stream time that goes on, so that as many expire as are written: 50,000 live.
func BenchmarkWindowApply(b *testing.B) {
	for _, size := range []int{1, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			id := testID
			id.Schema = Schema{Kind: KindWindow, WindowSize: time.Second, Retention: 50 * time.Second}
			s, err := Open(filepath.Join(b.TempDir(), "store"), id, Options{Logger: testLogs})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			now, position := int64(0), int64(0)
			apply := func(changes []Change) {
				for i := range changes {
					now++ // one window each
					changes[i] = Change{Key: internalKey(benchKey(rand.IntN(2000)), now), Value: make([]byte, 100), Timestamp: 1}
				}
				position += int64(len(changes))
				if err := s.Apply(changes, Checkpoint{Position: position}); err != nil {
					b.Fatal(err)
				}
			}
			for range 150 {
				apply(make([]Change, 1000))
			}
			changes := make([]Change, size)
			b.ReportAllocs()
			for b.Loop() {
				apply(changes)
			}
			b.ReportMetric(float64(b.N)*float64(size)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// TestTypedGetAllocs: a codec on the way costs a key and little else.
func TestTypedGetAllocs(t *testing.T) {
	schema := Schema{Kind: KindWindow, WindowSize: time.Second, Retention: time.Hour}
	s := openKind(t, "", schema, Options{InMemory: true})
	key := []byte("alice")
	if err := s.Apply([]Change{{Key: WindowKey(key, 5000), Value: []byte("v")}}, Checkpoint{Position: 1}); err != nil {
		t.Fatal(err)
	}
	w, err := NewWindowReader(s.Reader())
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(200, func() { _, _, _ = w.Get(key, 5000) }); n > 24 {
		t.Errorf("Get allocates %v times, want at most 24", n)
	}
	o := NewOverlay(s.Reader())
	own, err := NewWindowStore(o)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(200, func() { own.Put(key, 6000, []byte("v"), 1) }); n > 6 {
		t.Errorf("Put allocates %v times, want at most 6", n)
	}
	if n := testing.AllocsPerRun(200, func() { _, _, _ = own.Get(key, 6000) }); n > 4 {
		t.Errorf("Get of an overlay's own window allocates %v times, want at most 4", n)
	}
}
