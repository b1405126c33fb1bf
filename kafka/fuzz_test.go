package kafka

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchOf is a record batch of two records with a right checksum.
func batchOf(first int64, attributes int16) []byte {
	var records []byte
	for i := range int32(2) {
		r := kmsg.Record{OffsetDelta: i, Key: []byte("k"), Value: []byte("v"), Headers: []kmsg.Header{{Key: "h", Value: []byte{1}}}}
		body := r.AppendTo(nil)[1:] // its length is 0 and takes one byte
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
	}
	b := kmsg.RecordBatch{
		FirstOffset: first, PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes, LastOffsetDelta: 1,
		ProducerID: 7, NumRecords: 2, Records: records,
	}
	return resealed(b.AppendTo(nil))
}

// resealed gives a batch the length and the checksum that fit it, which a fuzzer does not find.
func resealed(b []byte) []byte {
	const lengthAt, sumAt, sumOf = 8, 17, 21
	if len(b) < sumOf {
		return b
	}
	binary.BigEndian.PutUint32(b[lengthAt:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[sumAt:], crc32.Checksum(b[sumOf:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// FuzzFetchedBytesNeverGoBack gives any bytes as what a broker sends of a partition. There is no panic, the position never
// goes back, and no record lies below it or at or above what comes next.
func FuzzFetchedBytesNeverGoBack(f *testing.F) {
	const transactional, control = 1 << 4, 1 << 5
	f.Add(batchOf(10, 0), int64(10), int64(0), int64(0), true)
	f.Add(batchOf(10, transactional), int64(11), int64(7), int64(10), true)
	f.Add(batchOf(10, transactional|control), int64(10), int64(7), int64(10), true)
	f.Add(append(batchOf(10, 0), batchOf(12, 1)...), int64(9), int64(7), int64(10), true)
	f.Add(batchOf(-1<<63, 0), int64(0), int64(0), int64(0), true)
	f.Add(batchOf(1<<63-1, 0), int64(1<<62), int64(0), int64(0), true)
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 2}, int64(0), int64(0), int64(0), false)
	fetcher := &Fetcher{codec: kgo.DefaultDecompressor()}
	f.Fuzz(func(t *testing.T, batches []byte, from, abortedBy, abortedFrom int64, seal bool) {
		if from < 0 {
			return // an offset that nobody asks for
		}
		if seal {
			batches = resealed(append([]byte(nil), batches...))
		}
		p := &kmsg.FetchResponseTopicPartition{
			HighWatermark: from + 5, RecordBatches: batches,
			AbortedTransactions: []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: abortedBy, FirstOffset: abortedFrom}},
		}
		b, err := fetcher.decode("t", p, from)
		if err != nil {
			t.Fatal(err) // of a reply without an error code
		}
		if b.Next < from {
			t.Fatalf("from %d the next offset is %d", from, b.Next)
		}
		last := from - 1
		for _, r := range b.Records {
			if r.Offset <= last || r.Offset >= b.Next {
				t.Fatalf("from %d to %d: a record at %d after one at %d", from, b.Next, r.Offset, last)
			}
			last = r.Offset
		}
	})
}
