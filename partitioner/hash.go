package partitioner

import (
	"encoding/binary"
	"hash/crc32"
)

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
