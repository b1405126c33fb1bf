package serve

import (
	"fmt"
	"testing"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
)

// BenchmarkScanBatches reads 100,000 rows of 100 bytes in batches as a scan does, with what it costs to encode them.
func BenchmarkScanBatches(b *testing.B) {
	const rows = 100_000
	kv, err := store.Open(b.TempDir(), store.ID{Store: "s"}, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = kv.Close() }()
	changes := make([]store.Change, 0, rows)
	for i := range rows {
		changes = append(changes, store.Change{Key: fmt.Appendf(nil, "prefix-%08d", i), Value: make([]byte, 100)})
	}
	if err := kv.Apply(changes, store.Checkpoint{Position: 1}); err != nil {
		b.Fatal(err)
	}
	for _, keysOnly := range []bool{false, true} {
		b.Run(fmt.Sprintf("keys_only=%v", keysOnly), func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				sn, err := kv.Snapshot()
				if err != nil {
					b.Fatal(err)
				}
				src := &source{pinnedRead: &pinnedRead{sn: sn}}
				src.scan = rowScan{
					sel: &query.Selection{Keys: query.Keys{Prefix: []byte("prefix-")}, Times: query.AllTimes},
					sn:  sn, keysOnly: keysOnly,
				}
				for !src.done {
					got, err := src.batch(b.Context(), query.MaxBatchRows, query.MaxBatchBytes)
					if err != nil {
						b.Fatal(err)
					}
					n += len(got)
					for _, row := range got {
						src.sent(row)
					}
					_ = &iqv1.ScanResponse{Rows: got}
				}
				sn.Release()
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
