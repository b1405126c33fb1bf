package partitioner

// Names of the partitioners that every [Registry] knows. The package comment says which client uses which by default.
const (
	NameMurmur2          = "murmur2"
	NameMurmur2Random    = "murmur2_random"
	NameCRC32            = "crc32"
	NameConsistent       = "consistent"
	NameConsistentRandom = "consistent_random"
	NameFNV1a            = "fnv1a"
	NameFNV1aRandom      = "fnv1a_random"
)

// Murmur2 returns the default partitioner of Kafka's Java producer and of Kafka Streams (BuiltInPartitioner
// .partitionForKey): murmur2 of the serialised key, the sign bit masked away, modulo the number of partitions.
func Murmur2() Partitioner { return hashed{name: NameMurmur2, partition: murmur2Partition} }

// Murmur2Random returns librdkafka's "murmur2_random" (rd_kafka_msg_partitioner_murmur2_random): [Murmur2] by the name
// that librdkafka's users know. Only a NULL key is spread at random (`if (!key)`); the empty key is hashed.
func Murmur2Random() Partitioner { return hashed{name: NameMurmur2Random, partition: murmur2Partition} }

// CRC32 returns the partitioner of the IEEE CRC-32 of the key, unsigned, modulo the number of partitions: librdkafka's
// "consistent", and Sarama's NewConsistentCRCHashPartitioner. The empty key is hashed, to partition 0.
func CRC32() Partitioner { return hashed{name: NameCRC32, partition: crc32Partition} }

// Consistent returns librdkafka's "consistent" (rd_kafka_msg_partitioner_consistent): [CRC32] by its name there.
func Consistent() Partitioner { return hashed{name: NameConsistent, partition: crc32Partition} }

// ConsistentRandom returns librdkafka's default, "consistent_random" (rd_kafka_msg_partitioner_consistent_random):
// [CRC32], except that the empty key is spread at random like a NULL one. Its test is `if (keylen == 0)`, where that of
// the other two "random" ones is `if (!key)`. So the empty key is nowhere in particular: [Partitioner.Keys] gives all
// partitions for it.
func ConsistentRandom() Partitioner {
	return hashed{name: NameConsistentRandom, partition: crc32Partition, spreadsEmpty: true}
}

// FNV1a returns the default partitioner of Sarama (NewHashPartitioner) and librdkafka's "fnv1a": the 32-bit FNV-1a hash
// taken as a signed number, its remainder by the number of partitions, negated when negative. That is the quirk to know:
// the remainder of the absolute value and neither the masked (Sarama's NewReferenceHashPartitioner) nor the unsigned one,
// so about half of all keys differ from a plain FNV-1a partitioner.
func FNV1a() Partitioner { return hashed{name: NameFNV1a, partition: fnv1aPartition} }

// FNV1aRandom returns librdkafka's "fnv1a_random" (rd_kafka_msg_partitioner_fnv1a_random): [FNV1a] by that name. Only a
// NULL key is spread at random; the empty key is hashed.
func FNV1aRandom() Partitioner { return hashed{name: NameFNV1aRandom, partition: fnv1aPartition} }

// builtIn is what every registry knows.
func builtIn() []Partitioner {
	return []Partitioner{
		Murmur2(), Murmur2Random(), CRC32(), Consistent(), ConsistentRandom(), FNV1a(), FNV1aRandom(),
	}
}

// hashed is a partitioner that always leaves the choice to its hash.
type hashed struct {
	name         string
	partition    func(key []byte, n int32) int32 // n > 0
	spreadsEmpty bool                            // the empty key is spread like a NULL one
}

func (h hashed) Name() string { return h.name }

func (h hashed) Partition(key []byte, n int32) int32 {
	if n <= 0 {
		return -1
	}
	return h.partition(key, n)
}

func (h hashed) Choose(string, []byte, []byte, int32) Choice { return Default() }

// Spreads implements [Spreader].
func (h hashed) Spreads(key []byte) bool { return h.spreadsEmpty && len(key) == 0 }

func (h hashed) Keys(key []byte, n int32) []int32 {
	if n > 0 && h.Spreads(key) {
		return everywhere(n)
	}
	return []int32{h.Partition(key, n)}
}

// everywhere is all of n partitions.
func everywhere(n int32) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}
