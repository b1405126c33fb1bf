package store

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
)

// TopicPartition names a partition of an input topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Checkpoint is how far a store has come.
type Checkpoint struct {
	// Position is the next changelog offset to apply; -1 when nothing was ever applied.
	Position int64

	// Input has, per input partition, the offset below which every record's effect is in the state (Kafka's IQv2
	// Position). Given to Apply it is merged into what is there; nil leaves that as it is. One that a store
	// returned is shared and must not be written to.
	Input map[TopicPartition]int64

	// StreamTime is the largest window start, session end or version timestamp that the store was given, in milliseconds;
	// NoStreamTime when it was given none, and of a key-value store. It never goes back. Apply takes it from the changes:
	// what it is given here does not count.
	StreamTime int64
}

// meta is the position entry: the last thing that an Apply writes, at the timestamp of that Apply.
type meta struct {
	at      Checkpoint
	ts      uint64 // Badger timestamp of this entry and of the newest visible data
	witness uint64 // number of the newest witness, see witness.go
}

// A position entry with a stream time has a format of its own; key-value stores go on with the first.
const (
	metaFormat      = 1
	metaFormatTimed = 2
)

var errBadMeta = errors.New("position entry is malformed")

// encodeMeta is the same bytes for the same meta: inputs are in order.
func encodeMeta(m meta) []byte {
	b := []byte{metaFormat}
	if m.at.StreamTime != NoStreamTime {
		b[0] = metaFormatTimed
		b = binary.AppendVarint(b, m.at.StreamTime)
	}
	b = binary.AppendVarint(b, m.at.Position)
	b = binary.AppendUvarint(b, m.ts)
	b = binary.AppendUvarint(b, m.witness)
	b = binary.AppendUvarint(b, uint64(len(m.at.Input)))
	for _, tp := range slices.SortedFunc(maps.Keys(m.at.Input), compareTopicPartition) {
		b = binary.AppendUvarint(b, uint64(len(tp.Topic)))
		b = append(b, tp.Topic...)
		b = binary.AppendVarint(b, int64(tp.Partition))
		b = binary.AppendVarint(b, m.at.Input[tp])
	}
	return b
}

func decodeMeta(b []byte) (meta, error) {
	d := decoder{rest: b}
	m := meta{at: Checkpoint{StreamTime: NoStreamTime}}
	switch d.byte() {
	case metaFormat:
	case metaFormatTimed:
		m.at.StreamTime = d.varint()
	default:
		return meta{}, errBadMeta
	}
	m.at.Position, m.ts, m.witness = d.varint(), d.uvarint(), d.uvarint()
	for n := d.uvarint(); n > 0 && !d.failed; n-- {
		tp := TopicPartition{Topic: string(d.bytes(d.uvarint()))}
		tp.Partition = int32(d.varint())
		if m.at.Input == nil {
			m.at.Input = make(map[TopicPartition]int64)
		}
		m.at.Input[tp] = d.varint()
	}
	if d.failed || len(d.rest) > 0 {
		return meta{}, errBadMeta
	}
	return m, nil
}

// newCheckpoint is that of a store that never applied anything.
var newCheckpoint = Checkpoint{Position: -1, StreamTime: NoStreamTime}

// advance returns the checkpoint after an Apply at next, with the same stream time, without writing to the old one: readers hold it.
func (c Checkpoint) advance(next Checkpoint) Checkpoint {
	c.Position = next.Position
	if len(next.Input) > 0 {
		merged := make(map[TopicPartition]int64, max(len(c.Input), len(next.Input)))
		maps.Copy(merged, c.Input)
		maps.Copy(merged, next.Input)
		c.Input = merged
	}
	return c
}

func compareTopicPartition(a, b TopicPartition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

// decoder reads fields off a slice; after a failure it returns zeros.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.rest, d.failed = nil, true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) skip(n int) {
	if n <= 0 {
		d.rest, d.failed = nil, true
		return
	}
	d.rest = d.rest[n:]
}
