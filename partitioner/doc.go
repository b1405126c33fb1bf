// Package partitioner answers which partition, or partitions, of a topic a key belongs to.
//
// It is the one place where a key is hashed. Nodes ask it before they produce and routers ask it before they look a key
// up, so both must be given the same partitioner: a router that hashes unlike the producer finds nothing.
//
// Three hash functions are known by name, each exact to its origin, because a record that another program produced must
// be found where that program put it:
//
//   - murmur2: the default of Kafka's Java producer and of Kafka Streams (and of franz-go).
//   - crc32: librdkafka's "consistent".
//   - fnv1a: the default of Sarama (and librdkafka's "fnv1a").
//
// An application adds its own in a [Registry], which it gives to nodes and routers alike. A partitioner may also answer
// with a [Choice]: leave it to the hash, drop the record, send it to some partitions or to all of them (KIP-837). A key
// that may be in several partitions is looked up in any of them, see [Partitioner.Keys].
//
// A key of length zero is a key and is hashed. A nil key is no key: [Route] answers [ErrNoKey] where the hash would have
// to decide, and the caller spreads such records as it likes (round-robin). A lookup always has a key, so [Lookup] takes
// nil for the empty one.
//
// Everything here is a pure function of its arguments and safe for concurrent use.
package partitioner
