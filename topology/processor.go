package topology

import "iter"

// Processor handles the records that reach one node of the topology. Each task has an instance of its own, made by the
// function given to [Builder.Processor], and calls it from one goroutine at a time, so an instance needs no locks. What it
// remembers outside a store is lost whenever the task moves or its transaction is aborted.
type Processor interface {
	// Process handles one record. An error it returns is about the record: the topology's [ErrorPolicy] decides whether
	// the task stops or skips the record. Failures of stores and outputs stop the task whether they are returned or not.
	Process(ctx Context, r Record) error
}

// ProcessorFunc is a [Processor] without state of its own.
type ProcessorFunc func(ctx Context, r Record) error

// Process calls the function.
func (f ProcessorFunc) Process(ctx Context, r Record) error { return f(ctx, r) }

// Context is what a processor can do besides looking at its record. It is valid during the call of Process alone.
type Context interface {
	// Store returns a store that was connected to this processor. Any other name gives a store whose every call fails and
	// stops the task.
	Store(name string) KeyValueStore
	// WindowStore, SessionStore and VersionedStore are Store for the other kinds. A store of another kind fails like one that
	// is not connected.
	WindowStore(name string) WindowStore
	SessionStore(name string) SessionStore
	VersionedStore(name string) VersionedStore
	// Forward hands a record to every child, in the order in which they were added, before it returns. Only Key, Value,
	// Timestamp and Headers matter. If a child fails, the rest is not called, Err returns the failure, and the record
	// being processed fails with it whatever Process returns.
	Forward(r Record)
	// ForwardTo is Forward to the child of that name alone. A name that is no child's fails like a child.
	ForwardTo(child string, r Record)
	// Err returns the first failure of this record's processing so far: of a store, an output or a child. A processor
	// that forwards in a long loop looks at it to stop early; none has to.
	Err() error
	// StreamTime is the largest timestamp of any record that the task has met, in milliseconds; -1 before the first.
	StreamTime() int64
	// ObserveTime raises the processor's own stream time to timestamp and returns it: the largest timestamp that this
	// processor has observed so far, in milliseconds; -1 before the first. Unlike what the processor remembers itself it
	// goes back with an aborted transaction, and comes back with [Task.AdvanceStreamTimes]. Windows close by it, as in Kafka
	// Streams, so that a record that never reaches the processor closes none.
	ObserveTime(timestamp int64) int64
	// Task names the running task.
	Task() TaskID
	// Skip counts a record that could not be used, under a short constant reason such as [SkipNullKey]. It ends nothing:
	// the processor returns nil afterwards.
	Skip(reason string)
}

// Entry is one key of a store.
type Entry struct {
	Key       []byte
	Value     []byte
	Timestamp int64 // milliseconds since 1970, of the record that wrote the value
}

// KeyValueStore is a processor's view of its task's partition of a store: its own uncommitted writes included. Keys may
// be empty, values may be empty but not nil. Bytes that pass either way are never changed afterwards by whoever gave or got
// them, so both sides may keep them. It is used by one goroutine at a time.
type KeyValueStore interface {
	// Get returns the value of a key and the timestamp (milliseconds) it was written with. An absent key is found=false
	// and no error.
	Get(key []byte) (value []byte, timestamp int64, found bool, err error)
	// Put sets the value of a key. A nil value is Delete.
	Put(key, value []byte, timestamp int64) error
	// Delete removes a key, if it is there.
	Delete(key []byte, timestamp int64) error
	// Range yields the keys from from to to, both included, in ascending byte order, or descending if reverse. A nil
	// bound is none. It ends after the first error. The store may be written to during the loop, which then may or may not
	// see the write, but yields no key twice.
	Range(from, to []byte, reverse bool) iter.Seq2[Entry, error]
}

// Output is where a task reads its state from and sends its results to; the node implements it on a transaction. One with
// stores of all kinds is a [WindowedOutput].
type Output interface {
	// Store returns the task's partition of a key-value store of its sub-topology. NewTask calls it once per store; a nil
	// result is an error of NewTask.
	Store(name string) KeyValueStore
	// Send produces r to the partitions that sink.Partitioner chooses (partitioner.Route) within the transaction.
	// r.Topic is sink.Topic, r.Partition and r.Offset are -1. The record's bytes are not changed afterwards, so they may be
	// kept. An error stops the task.
	Send(sink *Sink, r Record) error
}
