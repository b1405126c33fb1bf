package partitioner

import (
	"encoding/binary"
	"hash/crc32"
)

// Names of the partitioners that every [Registry] knows.
const (
	NameMurmur2 = "murmur2"
	NameCRC32   = "crc32"
	NameFNV1a   = "fnv1a"
)

// Murmur2 returns the default partitioner of Kafka's Java producer and of Kafka Streams (BuiltInPartitioner
// .partitionForKey): murmur2 of the serialised key, the sign bit masked away, modulo the number of partitions.
func Murmur2() Partitioner { return hashed{NameMurmur2, murmur2Partition} }

// CRC32 returns librdkafka's "consistent" partitioner: the IEEE CRC-32 of the key, unsigned, modulo the number of
// partitions. (librdkafka's default, "consistent_random", differs for empty keys alone, which it spreads at random, so
// that they cannot be looked up.)
func CRC32() Partitioner { return hashed{NameCRC32, crc32Partition} }

// FNV1a returns the default partitioner of Sarama (NewHashPartitioner) and librdkafka's "fnv1a": the 32-bit FNV-1a hash
// taken as a signed number, its remainder by the number of partitions, negated when negative. That is the quirk to know:
// the remainder of the absolute value and neither the masked (Sarama's NewReferenceHashPartitioner) nor the unsigned one,
// so about half of all keys differ from a plain FNV-1a partitioner.
func FNV1a() Partitioner { return hashed{NameFNV1a, fnv1aPartition} }

// hashed is a partitioner that always leaves the choice to its hash.
type hashed struct {
	name      string
	partition func(key []byte, n int32) int32
}

func (h hashed) Name() string { return h.name }

func (h hashed) Partition(key []byte, n int32) int32 {
	if n <= 0 {
		return -1
	}
	return h.partition(key, n)
}

func (h hashed) Choose(string, []byte, []byte, int32) Choice { return Default() }

func (h hashed) Keys(key []byte, n int32) []int32 { return []int32{h.Partition(key, n)} }

func murmur2Partition(key []byte, n int32) int32 {
	return int32(murmur2(key)&0x7fffffff) % n
}

func crc32Partition(key []byte, n int32) int32 {
	return int32(crc32.ChecksumIEEE(key) % uint32(n))
}

func fnv1aPartition(key []byte, n int32) int32 {
	p := int32(fnv1a(key)) % n
	if p < 0 {
		p = -p
	}
	return p
}

// murmur2 is the 32-bit MurmurHash2 of Kafka's Utils.murmur2, seed included: blocks of four bytes, little endian.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := seed ^ uint32(len(data))
	for len(data) >= 4 {
		k := binary.LittleEndian.Uint32(data) * m
		k ^= k >> r
		h = h*m ^ k*m
		data = data[4:]
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// fnv1a is hash/fnv's New32a without its allocation.
func fnv1a(data []byte) uint32 {
	h := uint32(2166136261)
	for _, b := range data {
		h = (h ^ uint32(b)) * 16777619
	}
	return h
}
