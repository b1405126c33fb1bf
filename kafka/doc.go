// Package kafka is what a node asks of Kafka, and how: the options that its clients share, requests for topics and offsets,
// fetches, and the transactional producer. It knows nothing of topologies, stores or
// assignments.
//
//   - kafka.go has the options of every client and the pauses between tries; redial.go a pause that the client lacks.
//   - catalog.go knows topics: ids, partition counts, leaders.
//   - topics.go creates and checks topics, and learns how large a batch they take.
//   - offsets.go asks for the starts and ends of logs and for a group's committed offsets, and commits some outside of any
//     transaction.
//   - fetch.go reads partitions, committed records only, for cursors.
//   - producer.go writes in transactions, and fences who wrote before.
//
// # What must hold
//
//   - I1: a fetch is read_committed.
//   - I6: a batch ends past control records, aborted records and gaps, and an empty one tells the high watermark too.
//   - I9: a producer whose Flush or End failed is closed, never used again: the next one's initialisation ends what it left.
//   - What was fetched for one cursor is never given to another, also not of the same partition (S44).
//   - Every request, retry and pause has a bound with a name.
//
// Constructors start nothing; Run of a Catalog or Fetcher ends when its context does.
package kafka
