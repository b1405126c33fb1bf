package store

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

const benchKeys = 100_000

// benchStore has 100,000 keys with values of 100 bytes, on disk.
func benchStore(tb testing.TB) *KV {
	tb.Helper()
	s, err := Open(filepath.Join(tb.TempDir(), "store"), testID, Options{Logger: testLogs})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	changes := make([]Change, benchKeys)
	for i := range changes {
		changes[i] = Change{Key: benchKey(i), Value: make([]byte, 100), Timestamp: 1}
	}
	if err := s.Apply(changes, Checkpoint{Position: benchKeys}); err != nil {
		tb.Fatal(err)
	}
	return s
}

func benchKey(i int) []byte {
	return fmt.Appendf(nil, "key-%012d", i)
}

func benchKeyList() [][]byte {
	keys := make([][]byte, 1<<14)
	for i := range keys {
		keys[i] = benchKey(rand.IntN(benchKeys))
	}
	return keys
}

func BenchmarkGet(b *testing.B) {
	s := benchStore(b)
	keys := benchKeyList()
	b.Run("keys=1e5/hit=true", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, found, _, err := s.Get(keys[i%len(keys)]); err != nil || !found {
				b.Fatal(found, err)
			}
		}
	})
	b.Run("keys=1e5/hit=false", func(b *testing.B) {
		b.ReportAllocs()
		miss := []byte("key-x")
		for b.Loop() {
			if _, found, _, err := s.Get(miss); err != nil || found {
				b.Fatal(found, err)
			}
		}
	})
	b.Run("keys=1e5/hit=true/parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for i := rand.IntN(len(keys)); pb.Next(); i++ {
				if _, found, _, err := s.Get(keys[i%len(keys)]); err != nil || !found {
					b.Error(found, err)
				}
			}
		})
	})
}

func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			s := benchStore(b)
			changes := make([]Change, size)
			position := s.Position()
			b.ReportAllocs()
			for b.Loop() {
				for i := range changes {
					changes[i] = Change{Key: benchKey(rand.IntN(benchKeys)), Value: make([]byte, 100), Timestamp: 1}
				}
				position += int64(size)
				if err := s.Apply(changes, Checkpoint{Position: position}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(size)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func BenchmarkRange(b *testing.B) {
	s := benchStore(b)
	keys := benchKeyList()
	for _, reverse := range []bool{false, true} {
		b.Run(fmt.Sprintf("entries=10/reverse=%v", reverse), func(b *testing.B) {
			b.ReportAllocs()
			r := s.Reader()
			for i := 0; b.Loop(); i++ {
				n := 0
				from, to := keys[i%len(keys)], []byte(nil)
				if reverse {
					from, to = to, from
				}
				for _, err := range r.Range(from, to, reverse) {
					if n++; err != nil || n == 10 {
						break
					}
				}
			}
		})
	}
}

func BenchmarkOverlay(b *testing.B) {
	s := benchStore(b)
	keys := benchKeyList()
	value := make([]byte, 100)
	b.Run("op=put", func(b *testing.B) {
		o := NewOverlay(s.Reader())
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			o.Put(keys[i%len(keys)], value, 1)
		}
	})
	b.Run("op=get-put", func(b *testing.B) {
		o := NewOverlay(s.Reader())
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%10_000 == 0 {
				o.Reset()
			}
			if _, _, err := o.Get(keys[i%len(keys)]); err != nil {
				b.Fatal(err)
			}
			o.Put(keys[i%len(keys)], value, 1)
		}
	})
	b.Run("op=range-100/written=10000", func(b *testing.B) {
		o := NewOverlay(s.Reader())
		for i := range 10_000 {
			o.Put(keys[i], value, 1)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			n := 0
			for _, err := range o.Range(keys[i%len(keys)], nil, false) {
				if n++; err != nil || n == 100 {
					break
				}
			}
		}
	})
}

// TestGetAllocs: Badger's share is most of it, and grows with the levels that a read passes.
func TestGetAllocs(t *testing.T) {
	s := benchStore(t)
	key := benchKey(5)
	if n := testing.AllocsPerRun(200, func() { _, _, _, _ = s.Get(key) }); n > 24 {
		t.Errorf("Get allocates %v times, want at most 24", n)
	}
	o := NewOverlay(s.Reader())
	o.Put(key, []byte("v"), 1)
	if n := testing.AllocsPerRun(200, func() { _, _, _ = o.Get(key) }); n > 2 {
		t.Errorf("Get of an overlay's own write allocates %v times, want at most 2", n)
	}
	if n := testing.AllocsPerRun(200, func() { o.Put(key, []byte("v"), 1) }); n > 4 {
		t.Errorf("Put allocates %v times, want at most 4", n)
	}
}
