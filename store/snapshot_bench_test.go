package store_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/iqgate/iqgate/store"
)

// BenchmarkSnapshotCopy takes a copy of a store, from its Export to the copy adopted and open.
func BenchmarkSnapshotCopy(b *testing.B) {
	for _, keys := range []int{12_500, 100_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			base := b.TempDir()
			source := openStore(b, filepath.Join(base, "source"), snapshotID(store.Schema{}), store.Options{})
			for from := 0; from < keys; from += 2_500 {
				var changes []store.Change
				for i := range 2_500 {
					changes = append(changes, store.Change{Key: fmt.Appendf(nil, "key-%07d", from+i), Value: bytes.Repeat([]byte("v"), 100)})
				}
				if err := source.Apply(changes, store.Checkpoint{Position: int64(from + 2_500)}); err != nil {
					b.Fatal(err)
				}
			}
			n := 0
			for b.Loop() {
				n++
				copyForBenchmark(b, source, filepath.Join(base, strconv.Itoa(n)))
			}
			b.ReportMetric(float64(keys)*float64(n)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

func copyForBenchmark(b *testing.B, source *store.KV, dir string) {
	b.Helper()
	e, err := source.Export()
	if err != nil {
		b.Fatal(err)
	}
	defer e.Release()
	o := store.Options{Logger: quiet}
	im, err := store.NewImport(dir+".incoming", source.ID(), e.Checkpoint(), o)
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	for {
		if buf, err = e.Next(buf[:0], 1<<20); err != nil {
			break
		}
		if _, err := im.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
	if err := im.Commit(e.Sum()); err != nil { // it compares the sums, so an export that ended early fails here or has none
		b.Fatal(err)
	}
	if err := store.Adopt(dir+".incoming", dir); err != nil {
		b.Fatal(err)
	}
	s, err := store.Open(dir, source.ID(), o)
	if err != nil || s.Position() != source.Position() {
		b.Fatal(s.Position(), err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
