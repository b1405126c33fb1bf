package topology

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"sync"
)

// Task runs the processors of one sub-topology for one partition. One goroutine at a time may call it, except
// [Task.Skipped].
//
// The node calls Process for each record, Commit when the transaction that holds the records since the last one was
// committed, and Reset when it was aborted.
type Task struct {
	id    TaskID
	sub   *Subtopology
	out   Output
	nodes []taskNode

	streamTime, committedTime int64 // milliseconds

	// fatal is the first failure of a store, an output or the topology itself, bad the first of a processor.
	fatal, bad error
	failedAt   string // name of the node at which the first failure was met

	mu struct {
		sync.Mutex
		skipped   map[string]int64 // since the task was made, by reason
		committed map[string]int64 // as of the last Commit
	}
}

// taskNode is a node with its instance. It is also the Context of its processor.
type taskNode struct {
	task   *Task
	run    *runNode
	proc   Processor
	stores map[string]*taskStore
}

// RecordError says which record made a task stop.
type RecordError struct {
	Task      TaskID
	Topic     string
	Partition int32
	Offset    int64
	Node      string // the node that failed; empty when none was reached
	Err       error
}

// Error names the record and the node.
func (e *RecordError) Error() string {
	where := ""
	if e.Node != "" {
		where = fmt.Sprintf(" at %q", e.Node)
	}
	return fmt.Sprintf("task %s: topic %q partition %d offset %d%s: %v", e.Task, e.Topic, e.Partition, e.Offset, where, e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// NewTask returns the task for a partition, with processors of its own and the stores that out gives.
func (s *Subtopology) NewTask(partition int32, out Output) (*Task, error) {
	t := &Task{
		id: TaskID{Subtopology: s.ID, Partition: partition}, sub: s, out: out,
		streamTime: -1, committedTime: -1, nodes: make([]taskNode, len(s.nodes)),
	}
	t.mu.skipped = map[string]int64{}
	t.mu.committed = map[string]int64{}
	if partition < 0 {
		return nil, fmt.Errorf("task %s: the partition is negative", t.id)
	}
	stores := map[string]*taskStore{}
	var errs []error
	for _, spec := range s.Stores {
		inner := out.Store(spec.Name)
		if inner == nil {
			errs = append(errs, fmt.Errorf("task %s: store %q is missing", t.id, spec.Name))
			continue
		}
		stores[spec.Name] = &taskStore{task: t, name: spec.Name, inner: inner}
	}
	for i := range s.nodes {
		run := &s.nodes[i]
		n := taskNode{task: t, run: run, stores: map[string]*taskStore{}}
		for _, name := range run.stores {
			n.stores[name] = stores[name]
		}
		t.nodes[i] = n
	}
	errs = append(errs, t.instances()...)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return t, nil
}

// instances makes new processors.
func (t *Task) instances() []error {
	var errs []error
	for i := range t.nodes {
		n := &t.nodes[i]
		if n.run.kind != processorNode {
			continue
		}
		if n.proc = n.run.supplier(); n.proc == nil {
			errs = append(errs, fmt.Errorf("task %s: processor %q: the function that makes it returned nil", t.id, n.run.name))
		}
	}
	return errs
}

// ID names the task.
func (t *Task) ID() TaskID { return t.id }

// StreamTime is the largest timestamp of any record processed, in milliseconds; -1 before the first.
func (t *Task) StreamTime() int64 { return t.streamTime }

// AdvanceStreamTime raises the stream time to ms, which an earlier run of the task had reached; it never lowers it.
func (t *Task) AdvanceStreamTime(ms int64) {
	t.streamTime = max(t.streamTime, ms)
	t.committedTime = max(t.committedTime, ms)
}

// Skipped returns how many records were skipped since the task was made, by reason. Any goroutine may call it. Counts of
// records whose transaction is aborted go away again with Reset.
func (t *Task) Skipped() map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.mu.skipped)
}

// Commit says that the transaction of all records processed so far was committed.
func (t *Task) Commit() {
	t.committedTime = t.streamTime
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.mu.committed)
	maps.Copy(t.mu.committed, t.mu.skipped)
}

// Reset says that the transaction of the records since the last Commit was aborted and that they will be processed
// again: the task gets new processors and goes back to the stream time and skip counts of the last Commit. The stores are
// the node's to bring back.
func (t *Task) Reset() error {
	t.streamTime = t.committedTime
	t.fatal, t.bad, t.failedAt = nil, nil, ""
	t.mu.Lock()
	clear(t.mu.skipped)
	maps.Copy(t.mu.skipped, t.mu.committed)
	t.mu.Unlock()
	return errors.Join(t.instances()...)
}

// Process runs one record through the sub-topology. The error is a [*RecordError]; after it the transaction must be
// aborted, because the record's effects may be there in part.
func (t *Task) Process(r Record) error {
	source, ok := t.sub.sources[r.Topic]
	if !ok || r.Partition != t.id.Partition {
		return t.recordError(&r, fmt.Errorf("the task does not read this partition; it reads partition %d of %q", t.id.Partition, t.sub.SourceTopics))
	}
	t.streamTime = max(t.streamTime, r.Timestamp)
	t.run(source, r)
	if t.fatal == nil && t.bad == nil {
		return nil
	}
	return t.failed(&r)
}

// failed decides what becomes of a record that failed.
func (t *Task) failed(r *Record) error {
	err := t.fatal
	if err == nil && t.sub.policy == SkipOnError {
		t.bad, t.failedAt = nil, ""
		t.skip(SkipProcessorError)
		return nil
	}
	if err == nil {
		err = t.bad
	}
	recErr := t.recordError(r, err)
	t.fatal, t.bad, t.failedAt = nil, nil, ""
	return recErr
}

func (t *Task) recordError(r *Record, err error) error {
	return &RecordError{Task: t.id, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Node: t.failedAt, Err: err}
}

// run forwards r from a source and turns a panic of a processor into its error.
func (t *Task) run(source int, r Record) {
	defer func() {
		if v := recover(); v != nil {
			t.fail(&t.bad, "", fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	t.nodes[source].Forward(r)
}

// fail keeps the first failure of its kind and the first place.
func (t *Task) fail(kind *error, at string, err error) {
	if *kind == nil {
		*kind = err
	}
	if t.failedAt == "" {
		t.failedAt = at
	}
}

func (t *Task) skip(reason string) {
	t.mu.Lock()
	t.mu.skipped[reason]++
	t.mu.Unlock()
}

// deliver hands r to a node.
func (t *Task) deliver(node int, r Record) {
	n := &t.nodes[node]
	if n.run.kind == sinkNode {
		r.Topic, r.Partition, r.Offset = n.run.sink.Topic, -1, -1
		if err := t.out.Send(n.run.sink, r); err != nil {
			t.fail(&t.fatal, n.run.name, fmt.Errorf("send to %q: %w", n.run.sink.Topic, err))
		}
		return
	}
	if err := n.proc.Process(n, r); err != nil {
		t.fail(&t.bad, n.run.name, err)
	}
}

// Store implements Context.
func (n *taskNode) Store(name string) KeyValueStore {
	if s, ok := n.stores[name]; ok {
		return s
	}
	return brokenStore{n.task, n.run.name, fmt.Errorf("store %q is not connected to processor %q", name, n.run.name)}
}

// Forward implements Context.
func (n *taskNode) Forward(r Record) {
	for _, c := range n.run.children {
		if n.Err() != nil {
			return
		}
		n.task.deliver(c, r)
	}
}

// ForwardTo implements Context.
func (n *taskNode) ForwardTo(child string, r Record) {
	if n.Err() != nil {
		return
	}
	for _, c := range n.run.children {
		if n.task.nodes[c].run.name == child {
			n.task.deliver(c, r)
			return
		}
	}
	n.task.fail(&n.task.fatal, n.run.name, fmt.Errorf("%q is no child of processor %q", child, n.run.name))
}

// Err implements Context.
func (n *taskNode) Err() error {
	if n.task.fatal != nil {
		return n.task.fatal
	}
	return n.task.bad
}

// StreamTime implements Context.
func (n *taskNode) StreamTime() int64 { return n.task.streamTime }

// Task implements Context.
func (n *taskNode) Task() TaskID { return n.task.id }

// Skip implements Context.
func (n *taskNode) Skip(reason string) { n.task.skip(reason) }

// taskStore is the node's store; its failures reach the task even if the processor drops them.
type taskStore struct {
	task  *Task
	name  string
	inner KeyValueStore
}

func (s *taskStore) check(op string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("store %q: %s: %w", s.name, op, err)
	s.task.fail(&s.task.fatal, "", err)
	return err
}

func (s *taskStore) Get(key []byte) ([]byte, int64, bool, error) {
	value, ts, found, err := s.inner.Get(key)
	return value, ts, found, s.check("get", err)
}

func (s *taskStore) Put(key, value []byte, timestamp int64) error {
	if value == nil {
		return s.Delete(key, timestamp)
	}
	return s.check("put", s.inner.Put(key, value, timestamp))
}

func (s *taskStore) Delete(key []byte, timestamp int64) error {
	return s.check("delete", s.inner.Delete(key, timestamp))
}

func (s *taskStore) Range(from, to []byte, reverse bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range s.inner.Range(from, to, reverse) {
			if err = s.check("range", err); !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// brokenStore is what a processor gets for a store that it may not use.
type brokenStore struct {
	task *Task
	at   string
	err  error
}

func (s brokenStore) fail() error {
	s.task.fail(&s.task.fatal, s.at, s.err)
	return s.err
}

func (s brokenStore) Get([]byte) ([]byte, int64, bool, error) { return nil, 0, false, s.fail() }
func (s brokenStore) Put(_, _ []byte, _ int64) error          { return s.fail() }
func (s brokenStore) Delete([]byte, int64) error              { return s.fail() }

func (s brokenStore) Range(_, _ []byte, _ bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) { yield(Entry{}, s.fail()) }
}
