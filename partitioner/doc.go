// Package partitioner answers which partition, or partitions, of a topic a key belongs to.
//
// It is the one place where a key is hashed. Nodes ask it before they produce and routers ask it before they look a key
// up, so both must be given the same partitioner: a router that hashes unlike the producer finds nothing.
//
// There are three hashes, each exact to its origin, because a record that another program produced must be found where
// that program put it: murmur2 (Kafka's Java client), crc32 (librdkafka) and fnv1a (Sarama). Some names differ in
// nothing but what they do with an empty or a NULL key:
//
//	name               hash     empty key          NULL key      whose name
//	murmur2            murmur2  hashed             spread        Java's default, librdkafka
//	murmur2_random     murmur2  hashed             spread        librdkafka
//	crc32              crc32    hashed, 0          spread        this package
//	consistent         crc32    hashed, 0          spread        librdkafka; the same as crc32
//	consistent_random  crc32    spread             spread        librdkafka's default
//	fnv1a              fnv1a    hashed             spread        Sarama's default, librdkafka
//	fnv1a_random       fnv1a    hashed             spread        librdkafka
//
// (librdkafka itself sends NULL keys of "murmur2", "consistent" and "fnv1a" to where the empty key goes. A record without
// a key cannot be looked up, so that nothing here depends on it, and our own sinks spread them.)
//
// # Which name is whose default
//
//   - murmur2: the Java producer, Kafka Streams, Kafka Connect, ksqlDB; franz-go; KafkaJS from 2.0 (before, its
//     JavaCompatiblePartitioner); kafka-python and aiokafka; the KafkaJS interface of confluent-kafka-javascript;
//     Sarama's NewMurmur2Partitioner; kafka-go's Murmur2Balancer.
//   - murmur2_random: whatever is built on librdkafka with the setting partitioner=murmur2_random, for topics shared with
//     Java.
//   - consistent_random: librdkafka with no setting, and with it kcat, confluent-kafka-python, -go and -dotnet,
//     node-rdkafka, rust-rdkafka and php-rdkafka; kafka-go's CRC32Balancer.
//   - crc32, consistent: librdkafka with partitioner=consistent; Sarama's NewConsistentCRCHashPartitioner (its comment
//     says "consistent_random", but it hashes the empty key).
//   - fnv1a: Sarama (NewHashPartitioner), and kafka-go's Hash balancer.
//   - fnv1a_random: librdkafka with partitioner=fnv1a_random, to share topics with Sarama.
//   - None: Sarama's NewReferenceHashPartitioner and kafka-go's ReferenceHash (FNV-1a, masked), KafkaJS's
//     LegacyPartitioner (its default before 2.0, a murmur2 that is wrong for some keys), and all that spread their records
//     (round-robin, random, partitioner.ignore.keys). The first two are a [Custom] partitioner in a few lines.
//
// Sources: librdkafka 2.15 src/rdkafka_msg.c (rd_kafka_msg_partitioner_*) and src/rdkafka_topic.c (the default, sticky
// partitions), CONFIGURATION.md and librdkafka#4510; Kafka's BuiltInPartitioner and Utils.murmur2; IBM/sarama partitioner.go; segmentio/kafka-go
// balancer.go; KafkaJS docs/MigrationGuide-2-0-0.md; confluent-kafka-javascript MIGRATION.md. The tests compare with vectors
// that the libraries computed, and those of layer 5 with the partitions that real producers choose.
//
// # Keys in several partitions
//
// An application adds its own partitioners in a [Registry], which it gives to nodes and routers alike. A partitioner may
// also answer with a [Choice]: leave it to the hash, drop the record, send it to some partitions or to all of them
// (KIP-837). A key that may be in several partitions is looked up in any of them, see [Partitioner.Keys].
//
// A [Spreader] leaves it to chance where records of some keys go, as consistent_random does with the empty key. For those
// Keys is all partitions, because a record of such a key may be in any: unlike a multicast key, it is not in each, and a
// reader who wants all of it asks every partition by its number.
//
// A key of length zero is a key, and hashed by all but consistent_random. A nil key is no key: [Route] answers
// [ErrNoKey] where the hash would have to decide, and the caller spreads such records as it likes (round-robin). A lookup
// always has a key, so [Lookup] takes nil for the empty one.
//
// Everything here is a pure function of its arguments and safe for concurrent use.
package partitioner
