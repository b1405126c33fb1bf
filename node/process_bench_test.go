package node

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/follow"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/topology"
)

// BenchmarkProcessAndApply is a task's work for one record but for Kafka: process, coalesce, make the changelog's records,
// apply. It counts by key over a store on disk, in transactions of 3,000 records over 12,500 keys: an eighth of the keys and
// of 100 ms of a node at full speed.
func BenchmarkProcessAndApply(b *testing.B) {
	const keys, txn = 12_500, 3_000
	t := benchTask(b)
	s := t.stores[0]
	recs := make([]*kgo.Record, keys)
	value := make([]byte, 100)
	for i := range recs {
		recs[i] = &kgo.Record{Topic: "in", Key: fmt.Appendf(nil, "key-%07d", i*7919%keys), Value: value, Timestamp: time.UnixMilli(1)}
	}
	at, next := 0, int64(0)
	b.ReportAllocs()
	for b.Loop() { // one record each
		rec := recs[at%keys]
		at++
		t.counts.begin(rec)
		if err := t.task.Process(recordOf(rec)); err != nil {
			b.Fatal(err)
		}
		if at%txn > 0 {
			continue
		}
		changes := s.overlay.Changes()
		made := make([]kgo.Record, len(changes))
		for i, c := range changes {
			if err := s.changelogRecord(c, &made[i]); err != nil {
				b.Fatal(err)
			}
		}
		next += int64(len(changes)) + 1
		if err := s.kv.Apply(changes, store.Checkpoint{Position: next}); err != nil {
			b.Fatal(err)
		}
		s.overlay.Reset()
		t.task.Commit()
	}
}

// benchTask is a running task that counts by key.
func benchTask(tb testing.TB) *activeTask {
	tb.Helper()
	c := &topology.Config{
		Application: "bench",
		Sources:     []topology.SourceConfig{{Topic: "in", Format: topology.FormatRaw, ValueSerde: "string"}},
		Aggregates:  []topology.AggregateConfig{{Store: "counts", Source: "in", Op: topology.OpCount}},
	}
	topo, err := c.Build(nil)
	if err != nil {
		tb.Fatal(err)
	}
	sub := topo.Subtopologies()[0]
	info := newTaskInfo(sub, 0)
	si := info.stores[0]
	id := store.ID{Application: "bench", Store: "counts", Changelog: si.changelog.Topic, Schema: follow.Schema(si.spec)}
	kv, err := store.Open(tb.TempDir(), id, store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = kv.Close() })
	t := &activeTask{info: info, counts: &runCounts{}}
	s := &taskStore{info: si, kv: kv, overlay: store.NewOverlay(kv.Reader())}
	s.check = &keyCheck{store: "counts", place: newPlacement(nil, si.spec.Partitioner, 0, 1), run: t.counts}
	t.stores = []*taskStore{s}
	if t.task, err = sub.NewTask(0, &taskOutput{t: t}); err != nil {
		tb.Fatal(err)
	}
	return t
}

// BenchmarkInput is what the queue between fetcher and task costs for one record.
func BenchmarkInput(b *testing.B) {
	const batch = 4_000
	in := newInput(metadata.TopicPartition{Topic: "in"}, metadata.TaskID{}, 0, make(chan struct{}, 1), func() {})
	made := batchFor(in, batch, 100, 50_000, 0)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ { // one record each
		if n%batch > 0 {
			continue
		}
		_, from, _ := in.At()
		in.Deliver(b.Context(), kafka.Batch{From: from, Next: from + batch, Records: made.Records, Bytes: made.Bytes})
		for taken := 0; taken < batch; taken += 250 {
			if got, err := in.take(250); err != nil || len(got.Records) != 250 {
				b.Fatal(len(got.Records), err)
			}
		}
	}
}
