package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/topology"
)

// A stage is where an assigned active task is.
type stage int

const (
	stagePromoting stage = iota // its stores are being restored; see promote.go
	stageRunning                // it processes input
	stageFailed                 // it rests after a record that it cannot process
)

// An activeTask is a task that this node was given as active. The worker alone touches it, but while it processes: then
// one goroutine does, which the worker waits for.
type activeTask struct {
	info  *taskInfo
	stage stage
	// vanished are the nodes that had the task before and have left; they are fenced first.
	vanished []string
	// lost may still answer for the task, each for a while; it does not run before.
	lost []loss
	// life numbers the task's uninterrupted runs; what belongs to an older one is ignored.
	life   uint64
	cancel context.CancelFunc // ends the promotion

	// Set while running:
	task     *topology.Task
	stores   []*taskStore
	inputs   []*input
	position metadata.Position                 // input offsets whose records' effects are in the overlay
	dirty    map[metadata.TopicPartition]int64 // those that moved since the last commit
	counts   *runCounts
	changed  func() bool              // says whether a source topic has another partition count than the stores
	sent     func(*kgo.Record, error) // hears of what was sent to a sink

	retryAt time.Time // when a failed task is tried again
}

// A taskStore is one store of a running task: the replica, whose writer token the task holds, and the overlay of writes
// that are not committed.
type taskStore struct {
	info    storeInfo
	replica *replica
	kv      *store.KV
	overlay *store.Overlay
	check   *keyCheck      // nil when nothing is judged
	changes []store.Change // of the commit in progress
	first   int64          // the changelog offset of the commit's first record
	last    int64          // the largest changelog offset that the commit's records got
}

// newRun makes the task ready to process on from what the promotion found committed. The caller holds the writer tokens of
// all its replicas.
func (w *worker) newRun(t *activeTask, p *promotion) error {
	committed := p.committed
	t.stores, t.inputs, t.counts = nil, nil, &runCounts{}
	t.changed = func() bool { return w.countsChanged(t.info) }
	t.sent = w.producer.Outcome(t.info.id, nil)
	places := make(map[string]*placement, len(t.info.stores)) // by partitioner
	t.position = make(metadata.Position, len(committed))
	t.dirty = make(map[metadata.TopicPartition]int64, len(committed))
	for _, si := range t.info.stores {
		r := w.replicas.get(si.id)
		if r == nil {
			return fmt.Errorf("store %s is gone", si.id)
		}
		kv := r.kv.Load()
		if kv == nil {
			return fmt.Errorf("store %s is not open", si.id)
		}
		s := &taskStore{info: si, replica: r, kv: kv, overlay: store.NewOverlay(taskReader{kv.Reader(), r})}
		name := si.spec.Partitioner
		if places[name] == nil {
			places[name] = newPlacement(w.cfg.Partitioners, name, si.id.Partition, w.tasks.counts[si.id.Store])
		}
		if places[name] != nil {
			s.check = &keyCheck{store: si.id.Store, place: places[name], run: t.counts}
		}
		t.stores = append(t.stores, s)
	}
	task, err := t.info.sub.NewTask(t.info.id.Partition, &taskOutput{w: w, t: t})
	if err != nil {
		return err
	}
	w.carried(t).times.later(p.times).advance(task)
	t.task = task
	for _, tp := range t.info.inputs {
		t.position[tp] = committed[tp]
		t.inputs = append(t.inputs, newInput(tp, t.info.id, committed[tp], w.signal, w.fetch))
	}
	return nil
}

// countsChanged says whether a topic that the task reads has another partition count than the task's stores.
func (w *worker) countsChanged(t *taskInfo) bool {
	for _, s := range t.stores {
		for _, topic := range t.sub.SourceTopics {
			if n, ok := w.catalog.Partitions(topic); ok && n != w.tasks.counts[s.id.Store] {
				return true
			}
		}
	}
	return false
}

// process runs the records that are there, at most limit per input, and returns how many there were. While the partition
// count of a topic is not the stores' it leaves them where they are: a key's records may be in another partition now, and
// what some of them alone make of the state is wrong (S29).
func (t *activeTask) process(limit int) (int, error) {
	if t.changed() {
		return 0, nil
	}
	n := 0
	for _, in := range t.inputs {
		b, err := in.take(limit)
		if err != nil {
			return n, &inputError{tp: in.tp, err: err}
		}
		for _, rec := range b.Records {
			t.counts.begin(rec)
			if err := t.task.Process(recordOf(rec)); err != nil {
				return n, err
			}
		}
		if b.Next > 0 {
			t.position[in.tp] = b.Next
			t.dirty[in.tp] = b.Next
		}
		n += len(b.Records)
		in.processed += int64(len(b.Records))
	}
	return n, nil
}

// inputError says that an input cannot be read on from where the task was: its records were deleted, the topic was made
// anew, or what Kafka sent cannot be decoded.
type inputError struct {
	tp  metadata.TopicPartition
	err error
}

func (e *inputError) Error() string { return "read " + e.tp.String() + ": " + e.err.Error() }

func (e *inputError) Unwrap() error { return e.err }

// recordOf is a fetched record as processors see it. kgo gives an empty key or value where there is one and nil where
// there is none.
func recordOf(rec *kgo.Record) topology.Record {
	r := topology.Record{
		Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset,
		Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp.UnixMilli(),
	}
	for _, h := range rec.Headers {
		r.Headers = append(r.Headers, topology.Header{Key: h.Key, Value: h.Value})
	}
	return r
}

// taskOutput implements topology.WindowedOutput on the worker's transaction; the stores of other kinds are in kinds.go.
type taskOutput struct {
	w    *worker
	t    *activeTask
	next atomic.Uint32 // spreads records without a key
}

// Store implements topology.Output.
func (o *taskOutput) Store(name string) topology.KeyValueStore {
	if s := o.t.store(name); s != nil {
		return overlayStore{s.overlay, s.check}
	}
	return nil
}

// Send implements topology.Output: it writes the record to each partition that the sink's partitioner chooses (KIP-837),
// or to none when it names one that does not exist.
func (o *taskOutput) Send(sink *topology.Sink, r topology.Record) error {
	n, ok := o.w.catalog.Partitions(sink.Topic)
	if !ok || n == 0 {
		return fmt.Errorf("sink %q: topic %s does not exist", sink.Name, sink.Topic)
	}
	to, err := partitioner.Route(sink.Partitioner, sink.Topic, r.Key, r.Value, n)
	if errors.Is(err, partitioner.ErrNoKey) {
		to, err = []int32{int32(o.next.Add(1) % uint32(n))}, nil
	}
	if err != nil {
		return fmt.Errorf("sink %q: %w", sink.Name, err)
	}
	if len(to) == 0 {
		o.t.counts.drop(sink)
	}
	o.t.counts.send(sink, len(to))
	for _, p := range to {
		rec := &kgo.Record{Topic: sink.Topic, Partition: p, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		o.w.producer.Produce(o.w.ctx, rec, o.t.sent)
	}
	return nil
}

// overlayStore shows an overlay as processors want it.
type overlayStore struct {
	o     *store.Overlay
	check *keyCheck
}

// Get implements topology.KeyValueStore.
func (s overlayStore) Get(key []byte) ([]byte, int64, bool, error) {
	s.check.uses(key)
	v, found, err := s.o.Get(key)
	return v.Bytes, v.Timestamp, found, err
}

// Put implements topology.KeyValueStore.
func (s overlayStore) Put(key, value []byte, timestamp int64) error {
	if value == nil {
		return s.Delete(key, timestamp)
	}
	s.check.uses(key)
	s.o.Put(key, value, timestamp)
	return nil
}

// Delete implements topology.KeyValueStore.
func (s overlayStore) Delete(key []byte, timestamp int64) error {
	s.check.uses(key)
	s.o.Delete(key, timestamp)
	return nil
}

// Range implements topology.KeyValueStore, whose upper bound is included while the store's is not.
func (s overlayStore) Range(from, to []byte, reverse bool) iter.Seq2[topology.Entry, error] {
	end := to
	if to != nil {
		end = append(bytes.Clone(to), 0)
	}
	return func(yield func(topology.Entry, error) bool) {
		for e, err := range s.o.Range(from, end, reverse) {
			if !yield(topology.Entry{Key: e.Key, Value: e.Value.Bytes, Timestamp: e.Value.Timestamp}, err) {
				return
			}
		}
	}
}
