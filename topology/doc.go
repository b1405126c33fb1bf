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
// # Windows
//
// An aggregate may keep one value for each key and window of time ([Windows]): tumbling, hopping and sliding windows, which
// lie in a window store, and sessions, which lie in a session store. Time is that of the records. In Go it is a processor
// that [Builder.WindowedAggregate] makes of an [Aggregator]; in YAML:
//
//	application: shop
//	sources:
//	  - {topic: orders, format: json}
//	tables:
//	  - {store: prices, source: orders, key: item, value: price, versioned: {history: 5m}}
//	aggregates:
//	  - {store: per-minute, source: orders, count: true, window: {tumbling: 60s, grace: 10s, retention: 2m}}
//	  - {store: last-hour, source: orders, sum: price, window: {hopping: 1h, advance: 5m}}
//	  - {store: at-once, source: orders, max: price, window: {sliding: 30s, grace: 5s}}
//	  - {store: visits, source: orders, group_by: user, average: price, window: {session: 30m, grace: 1m}, output: visits-changed, output_key: json}
//
// Which windows there are, what they hold, when they close, what goes downstream and what is in the changelogs is as in
// Kafka Streams 4.x:
//
//   - A processor's stream time is the largest timestamp that has reached it ([Context.ObserveTime]). A tumbling or hopping
//     window [start, end) is closed when end + grace <= stream time, a sliding one [start, end] when end + grace < stream
//     time, a session [start, end] when end + gap + grace < stream time. For a closed window a record is late: it is
//     counted under [SkipLate] and changes nothing there.
//   - A store's stream time is the largest start (of a session: end) that was put. A window with start (session: end) <=
//     stream time - retention is expired: nobody finds it any more. No window expires before it closes, except that a
//     session expires when it could still be closed by the next millisecond, if retention is not more than gap + grace;
//     records for such a one are late.
//   - The timestamp of a window is the largest of its records (of OpFirst: that of the record it kept); a change goes
//     downstream with it. A change of a session goes with the session's end.
//   - A record that touches several sessions joins them: their tombstones and the joined session are in one transaction, and
//     each is forwarded, in that order. A session that only gets a record more and no new end is written in place.
//   - Changes are forwarded under [WindowKey] or [SessionKey]. A change to the same value is not forwarded.
//
// A versioned table keeps old values for its history ([VersionedStore]): the latest value of a key is the one with the
// largest timestamp, in whatever order they come, and a record older than stream time - history is late.
//
// What processors have observed goes back with an aborted transaction. A node that gives it to the next run of the task
// ([Task.StreamTimes], [Task.AdvanceStreamTimes]) closes exactly the windows that an uninterrupted run closes; without that
// the newest window in the store says which older ones are closed for sure.
//
// # How it runs
//
// Build splits the topology into sub-topologies: what is connected without passing a repartition topic, or by a store.
// Each partition of a sub-topology's source topics is a [Task], which the node makes with [Subtopology.NewTask] and feeds
// record by record. A record runs depth first through its processors in the caller's goroutine; no goroutine, channel or
// reflection is involved. Stores and outputs come from the node ([Output], [WindowedOutput]), which puts them into one Kafka
// transaction.
//
// # Names
//
// Internal topics have the names and settings of Kafka Streams: <application>-<store>-changelog, compacted (of windows and
// sessions also deleted a day after their retention, of versions not compacted until a day after their history), and
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
