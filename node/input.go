package node

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
)

// Bounds of what is fetched ahead of the tasks. The inputs of a node share aheadBytes, so that its memory does not grow with
// the number of its partitions.
const (
	aheadBytes    = 24 << 20
	minInputBytes = 256 << 10 // of one input, however many there are
	maxInputBytes = 4 << 20
	// recordBytes is what a record takes beside its key and value (kgo.Record and the pointer to it).
	recordBytes = 216

	minWant, maxWant = 128 << 10, 4 << 20 // of one fetch, in bytes on the broker's disk
	firstGrowth      = 8                  // how much larger in memory than on the wire, before the first fetch
	maxGrowth        = 64
)

// An input is one input partition of a running task. It lives as long as the task runs without interruption: after an
// abort the task gets new inputs at the committed offsets, and what the old ones had fetched is never looked at again.
//
// It asks for more when it is half empty, and for as much as it has room for, by what the last fetch grew to in memory. A
// batch comes whole, so it may hold more than its share by one batch.
type input struct {
	tp     metadata.TopicPartition
	task   metadata.TaskID
	signal chan struct{} // the worker's
	fetch  func()        // wakes the fetcher
	share  atomic.Int64  // the bytes in memory that it may hold
	// processed are the records since the task's last commit; the task's alone.
	processed int64

	mu struct {
		sync.Mutex
		next   int64
		queue  []kafka.Batch
		bytes  int64
		growth float64 // bytes in memory for one on the wire, by the last fetch
		least  int32   // the least to want: more than what brought nothing although there was something
		closed bool
		err    error
	}
}

var _ kafka.Sized = (*input)(nil)

func newInput(tp metadata.TopicPartition, task metadata.TaskID, next int64, signal chan struct{}, fetch func()) *input {
	in := &input{tp: tp, task: task, signal: signal, fetch: fetch}
	in.share.Store(maxInputBytes)
	in.mu.next, in.mu.growth, in.mu.least = next, firstGrowth, minWant
	return in
}

// shareOf is the bytes that each of n inputs may hold.
func shareOf(n int) int64 {
	return max(minInputBytes, min(maxInputBytes, aheadBytes/int64(max(n, 1))))
}

// At implements kafka.Cursor.
func (in *input) At() (metadata.TopicPartition, int64, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.tp, in.mu.next, !in.mu.closed && in.mu.err == nil && in.mu.bytes < in.share.Load()/2
}

// Want implements kafka.Sized.
func (in *input) Want() int32 {
	in.mu.Lock()
	defer in.mu.Unlock()
	room := float64(in.share.Load() - in.mu.bytes)
	return max(in.mu.least, int32(min(maxWant, max(minWant, room/in.mu.growth))))
}

// Deliver implements kafka.Cursor.
func (in *input) Deliver(_ context.Context, b kafka.Batch) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.closed || b.From != in.mu.next {
		return
	}
	if b.Err != nil {
		in.mu.err = b.Err
		kafka.Poke(in.signal)
		return
	}
	if b.Next <= b.From {
		if b.Bytes == 0 && b.Stable > b.From { // its next batch is larger than what was wanted; no transaction holds it back
			in.mu.least = min(2*in.mu.least, maxWant)
		}
		return
	}
	size := sizeOf(b)
	in.mu.next = b.Next
	in.mu.queue = append(in.mu.queue, b)
	in.mu.bytes += size
	if len(b.Records) > 0 {
		in.mu.least = minWant
		in.mu.growth = min(maxGrowth, math.Max(1, float64(size)/float64(max(b.Bytes, 1))))
		kafka.Poke(in.signal)
	}
}

// sizeOf is about what a batch takes in memory.
func sizeOf(b kafka.Batch) int64 {
	size := len(b.Records) * recordBytes
	for _, r := range b.Records {
		size += len(r.Key) + len(r.Value)
	}
	return int64(size)
}

// ready says whether take has something to give: records or an error.
func (in *input) ready() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.mu.queue) > 0 || in.mu.err != nil
}

// take hands out up to limit records and the offset below which everything has been handed out.
func (in *input) take(limit int) (b kafka.Batch, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.mu.queue) == 0 {
		return kafka.Batch{}, in.mu.err
	}
	b = in.mu.queue[0]
	if len(b.Records) > limit {
		rest := b
		rest.Records = b.Records[limit:]
		rest.From = rest.Records[0].Offset
		b.Records, b.Next = b.Records[:limit:limit], rest.From
		in.mu.queue[0] = rest
	} else {
		in.mu.queue[0] = kafka.Batch{} // so that the array under the queue does not keep its records
		in.mu.queue = in.mu.queue[1:]
	}
	half, before := in.share.Load()/2, in.mu.bytes
	if in.mu.bytes -= sizeOf(b); before >= half && in.mu.bytes < half {
		in.fetch()
	}
	return b, nil
}

func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.closed = true
	in.mu.queue = nil
}

// An inputSet is the inputs of all running tasks, as the fetcher sees them. Only the worker changes it.
type inputSet struct {
	all atomic.Pointer[[]kafka.Cursor]
}

func (s *inputSet) cursors() []kafka.Cursor {
	if p := s.all.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *inputSet) set(inputs []*input) {
	cs := make([]kafka.Cursor, len(inputs))
	for i, in := range inputs {
		in.share.Store(shareOf(len(inputs)))
		cs[i] = in
	}
	s.all.Store(&cs)
}
