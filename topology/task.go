package topology

import (
	"errors"
	"fmt"
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

	// at is the name of the node that runs now. fatal is the first failure, of the record being processed, of a store, an
	// output or the topology itself; bad is the first of a processor.
	at         string
	fatal, bad failure

	mu struct {
		sync.Mutex
		skipped   map[string]int64 // since the task was made, by reason
		committed map[string]int64 // as of the last Commit
	}
}

// failure is an error and the node that met it.
type failure struct {
	err error
	at  string
}

// taskNode is a node with its instance. It is also the Context of its processor.
type taskNode struct {
	task   *Task
	run    *runNode
	proc   Processor
	stores map[string]*taskStore

	streamTime, committedTime int64 // milliseconds; what the processor has observed
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
		store, err := openStore(t, spec, out)
		if err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", t.id, err))
			continue
		}
		stores[spec.Name] = store
	}
	for i := range s.nodes {
		run := &s.nodes[i]
		n := taskNode{task: t, run: run, stores: map[string]*taskStore{}, streamTime: -1, committedTime: -1}
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

// StreamTimes returns the largest timestamp that each processor has observed ([Context.ObserveTime]), in milliseconds, by
// the processor's name; those that have observed none are left out. After Reset it is as of the last Commit.
func (t *Task) StreamTimes() map[string]int64 {
	all := map[string]int64{}
	for i := range t.nodes {
		if n := &t.nodes[i]; n.streamTime >= 0 {
			all[n.run.name] = n.streamTime
		}
	}
	return all
}

// AdvanceStreamTimes raises what processors have observed to what an earlier run of the task gave with StreamTimes; it
// never lowers it, and ignores processors that the task has not. Without it, a window that was closed in the earlier run
// may take records until the stream time is there again, though never one that ended Grace before the newest window in
// the store began.
func (t *Task) AdvanceStreamTimes(all map[string]int64) {
	for i := range t.nodes {
		n := &t.nodes[i]
		if ms, ok := all[n.run.name]; ok {
			n.streamTime = max(n.streamTime, ms)
			n.committedTime = max(n.committedTime, ms)
		}
	}
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
	for i := range t.nodes {
		t.nodes[i].committedTime = t.nodes[i].streamTime
	}
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
	for i := range t.nodes {
		t.nodes[i].streamTime = t.nodes[i].committedTime
	}
	t.fatal, t.bad, t.at = failure{}, failure{}, ""
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
		return t.recordError(&r, "", fmt.Errorf("the task does not read this partition; it reads partition %d of %q", t.id.Partition, t.sub.SourceTopics))
	}
	t.streamTime = max(t.streamTime, r.Timestamp)
	t.run(source, r)
	if t.fatal.err == nil && t.bad.err == nil {
		return nil
	}
	return t.failed(&r)
}

// failed decides what becomes of a record that failed.
func (t *Task) failed(r *Record) error {
	f := t.fatal
	skip := f.err == nil && t.sub.policy == SkipOnError
	if f.err == nil {
		f = t.bad
	}
	t.fatal, t.bad, t.at = failure{}, failure{}, ""
	if skip {
		t.skip(SkipProcessorError)
		return nil
	}
	return t.recordError(r, f.at, f.err)
}

func (t *Task) recordError(r *Record, node string, err error) error {
	return &RecordError{Task: t.id, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Node: node, Err: err}
}

// run forwards r from a source and turns a panic of a processor into its error.
func (t *Task) run(source int, r Record) {
	defer func() {
		if v := recover(); v != nil {
			t.fail(&t.bad, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	t.at = t.nodes[source].run.name
	t.nodes[source].Forward(r)
}

// fail keeps the first failure of its kind.
func (t *Task) fail(kind *failure, err error) {
	if kind.err == nil {
		*kind = failure{err, t.at}
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
	from := t.at
	t.at = n.run.name // a panic leaves it there, which is where it was
	if n.run.kind == sinkNode {
		r.Topic, r.Partition, r.Offset = n.run.sink.Topic, -1, -1
		if err := t.out.Send(n.run.sink, r); err != nil {
			t.fail(&t.fatal, fmt.Errorf("send to %q: %w", n.run.sink.Topic, err))
		}
	} else if err := n.proc.Process(n, r); err != nil {
		t.fail(&t.bad, err)
	}
	t.at = from
}

// Store implements Context.
func (n *taskNode) Store(name string) KeyValueStore {
	s, err := n.store(name, KeyValue)
	if err != nil {
		return brokenStore{n.task, err}
	}
	return s
}

// WindowStore implements Context.
func (n *taskNode) WindowStore(name string) WindowStore {
	s, err := n.store(name, Window)
	if err != nil {
		return brokenWindowStore{brokenStore{n.task, err}}
	}
	return s.window
}

// SessionStore implements Context.
func (n *taskNode) SessionStore(name string) SessionStore {
	s, err := n.store(name, Session)
	if err != nil {
		return brokenSessionStore{brokenStore{n.task, err}}
	}
	return s.session
}

// VersionedStore implements Context.
func (n *taskNode) VersionedStore(name string) VersionedStore {
	s, err := n.store(name, Versioned)
	if err != nil {
		return brokenVersionedStore{brokenStore{n.task, err}}
	}
	return s.versioned
}

// store finds a store that the processor may use.
func (n *taskNode) store(name string, kind StoreKind) (*taskStore, error) {
	s, ok := n.stores[name]
	if !ok {
		return nil, fmt.Errorf("store %q is not connected to processor %q", name, n.run.name)
	}
	if s.kind != kind {
		return nil, fmt.Errorf("store %q is a %s store, and processor %q asks for a %s store", name, s.kind, n.run.name, kind)
	}
	return s, nil
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
	n.task.fail(&n.task.fatal, fmt.Errorf("%q is no child of processor %q", child, n.run.name))
}

// Err implements Context.
func (n *taskNode) Err() error {
	if n.task.fatal.err != nil {
		return n.task.fatal.err
	}
	return n.task.bad.err
}

// StreamTime implements Context.
func (n *taskNode) StreamTime() int64 { return n.task.streamTime }

// ObserveTime implements Context.
func (n *taskNode) ObserveTime(timestamp int64) int64 {
	n.streamTime = max(n.streamTime, timestamp)
	return n.streamTime
}

// Task implements Context.
func (n *taskNode) Task() TaskID { return n.task.id }

// Skip implements Context.
func (n *taskNode) Skip(reason string) { n.task.skip(reason) }
