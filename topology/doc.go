// Package topology is what users of the system write against: which topics are read, what is done with each record, which
// state is kept and what is written.
//
// # Two ways to write one
//
// In Go, with a [Builder]: sources read topics, processors handle records with a [Context] that reads and writes stores
// and forwards, sinks write topics, and repartition nodes send records through an internal topic to the partition of
// their new key. [Builder.Build] checks the whole and returns a [Topology], or every fault at once.
//
//	t, err := topology.New().
//		Source("words", "words").
//		Processor("count", func() topology.Processor { return topology.ProcessorFunc(count) }, "words").
//		Store(topology.StoreSpec{Name: "counts", KeySerde: topology.NameString, ValueSerde: topology.NameInt64}, "count").
//		Sink("changes", "word-counts", nil, "count").
//		Build("word-count")
//
// Without any Go, as YAML: tables (the last value of each key) and aggregates over a field of JSON or CSV records. See
// [LoadYAML] for the form and [Config] for the same as a Go value.
//
// Package topologytest runs either in a test, without Kafka.
//
// # How it runs
//
// Build splits the topology into sub-topologies: what is connected without passing a repartition topic, or by a store.
// Each partition of a sub-topology's source topics is a [Task], which the node makes with [Subtopology.NewTask] and feeds
// record by record. A record runs depth first through its processors in the caller's goroutine; no goroutine, channel or
// reflection is involved. Stores and outputs come from the node ([Output]), which puts them into one Kafka transaction.
//
// # Names
//
// Internal topics have the names and settings of Kafka Streams: <application>-<store>-changelog, compacted, and
// <application>-<name>-repartition, never deleted by time. Sub-topologies are numbered as Kafka Streams does, by their
// sources' names in ascending order, and task ids look like its own: 0_3.
//
// # What goes wrong
//
// A record that cannot be used (no key where one is needed, a value that is not of its format) is skipped and counted, see
// [SkipNullKey] and the constants beside it; each table and each aggregate that skips it counts once. A processor that
// returns an error or panics stops its task with a [*RecordError] that names topic, partition and offset, or skips the
// record, as [ErrorPolicy] says. A failure of a store or an output always stops the task, even if the processor ignores
// it.
//
// # Invariants
//
//   - Nobody changes the bytes of a record or of a store's entry once they are made, so they are shared, not copied.
//   - nil and empty bytes are never the same: a nil key is no key, a nil value a tombstone.
//   - The same records in the same order give the same state and outputs; no clock, map order or random number has a say.
//   - Sums and counts of int64 never wrap around: [ErrOverflow] instead.
//
// It leaves to others: partition counts and topics (node), transactions (node), storage (store), hashing (partitioner).
package topology
