package node

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
)

// Bounds of what is fetched ahead of one input partition.
const (
	maxAheadRecords = 20_000
	maxAheadBytes   = 8 << 20
)

// An input is one input partition of a running task. It lives as long as the task runs without interruption: after an
// abort the task gets new inputs at the committed offsets, and what the old ones had fetched is never looked at again.
type input struct {
	tp     metadata.TopicPartition
	task   metadata.TaskID
	signal chan struct{} // the worker's

	mu struct {
		sync.Mutex
		next    int64
		queue   []kafka.Batch
		records int
		bytes   int
		closed  bool
		err     error
	}
}

func newInput(tp metadata.TopicPartition, task metadata.TaskID, next int64, signal chan struct{}) *input {
	in := &input{tp: tp, task: task, signal: signal}
	in.mu.next = next
	return in
}

// At implements kafka.Cursor.
func (in *input) At() (metadata.TopicPartition, int64, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.tp, in.mu.next, !in.mu.closed && in.mu.err == nil && in.mu.records < maxAheadRecords && in.mu.bytes < maxAheadBytes
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
		return
	}
	in.mu.next = b.Next
	in.mu.queue = append(in.mu.queue, b)
	in.mu.records += len(b.Records)
	for _, r := range b.Records {
		in.mu.bytes += len(r.Key) + len(r.Value)
	}
	if len(b.Records) > 0 {
		kafka.Poke(in.signal)
	}
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
		in.mu.queue = in.mu.queue[1:]
	}
	in.mu.records -= len(b.Records)
	for _, r := range b.Records {
		in.mu.bytes -= len(r.Key) + len(r.Value)
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
		cs[i] = in
	}
	s.all.Store(&cs)
}
