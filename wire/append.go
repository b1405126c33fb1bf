package wire

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/iqgate/iqgate/metadata"
)

// What follows writes messages as bytes, for reads of one key: making messages and marshalling them would be a good part of
// such a read. A test compares it with Status, Position and the generated code.

// Field numbers of ReplicaStatus, Position, PartitionOffset and google.protobuf.Duration.
const (
	statusNode        protowire.Number = 1
	statusStore       protowire.Number = 2
	statusPartition   protowire.Number = 3
	statusRole        protowire.Number = 4
	statusState       protowire.Number = 5
	statusGeneration  protowire.Number = 6
	statusPosition    protowire.Number = 7
	statusEndPosition protowire.Number = 8
	statusOffsetLag   protowire.Number = 9
	statusTimeLag     protowire.Number = 10
	statusSampleAge   protowire.Number = 11
	statusAddress     protowire.Number = 12
	statusLeaseValid  protowire.Number = 13

	positionOffsets protowire.Number = 1

	offsetTopic     protowire.Number = 1
	offsetPartition protowire.Number = 2
	offsetOffset    protowire.Number = 3

	durationSeconds protowire.Number = 1
	durationNanos   protowire.Number = 2
)

// AppendStatus appends what Status gives, as a field of a message.
func AppendStatus(b []byte, field protowire.Number, node, address string, r *metadata.Replica) []byte {
	b, at := begin(b, field)
	b = AppendString(b, statusNode, node)
	b = AppendString(b, statusStore, r.Store)
	b = AppendInt(b, statusPartition, int64(r.Partition.Partition))
	b = AppendInt(b, statusRole, int64(role(r.Role)))
	b = AppendInt(b, statusState, int64(state(r.State)))
	b = AppendInt(b, statusGeneration, int64(r.Generation))
	b = AppendInt(b, statusPosition, r.Lag.Position)
	b = AppendInt(b, statusEndPosition, r.Lag.End)
	if r.Lag.Offsets != metadata.LagUnknown {
		b = AppendPresent(b, statusOffsetLag, r.Lag.Offsets)
	}
	if r.Lag.Time != metadata.LagUnknown {
		b = appendDuration(b, statusTimeLag, r.Lag.Time)
	}
	if r.Lag.Offsets != metadata.LagUnknown {
		b = appendDuration(b, statusSampleAge, r.Lag.SampleAge)
	}
	b = AppendString(b, statusAddress, address)
	if r.LeaseValid {
		b = AppendPresent(b, statusLeaseValid, 1)
	}
	return end(b, at)
}

// AppendPosition appends what Position gives, as a field of a message; nothing for nil.
func AppendPosition(b []byte, field protowire.Number, p metadata.Position) []byte {
	if p == nil {
		return b
	}
	b, at := begin(b, field)
	if len(p) == 1 { // as nearly always: there is nothing to sort
		for tp, offset := range p {
			b = appendOffset(b, tp, offset)
		}
		return end(b, at)
	}
	for _, tp := range p.Sorted() {
		b = appendOffset(b, tp, p[tp])
	}
	return end(b, at)
}

func appendOffset(b []byte, tp metadata.TopicPartition, offset int64) []byte {
	b, at := begin(b, positionOffsets)
	b = AppendString(b, offsetTopic, tp.Topic)
	b = AppendInt(b, offsetPartition, int64(tp.Partition))
	return end(AppendInt(b, offsetOffset, offset), at)
}

func appendDuration(b []byte, field protowire.Number, d time.Duration) []byte {
	b, at := begin(b, field)
	b = AppendInt(b, durationSeconds, int64(d/time.Second))
	return end(AppendInt(b, durationNanos, int64(d%time.Second)), at)
}

// AppendInt appends a number that is left out when it is 0.
func AppendInt(b []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return AppendPresent(b, field, v)
}

// AppendPresent appends a number.
func AppendPresent(b []byte, field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

// AppendString appends a text that is left out when it is empty.
func AppendString(b []byte, field protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// begin begins a message within a message; end, with the place that begin gave, writes its length, for which begin leaves one
// byte.
func begin(b []byte, field protowire.Number) (_ []byte, at int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	return b, len(b)
}

func end(b []byte, at int) []byte {
	size := len(b) - at
	more := protowire.SizeVarint(uint64(size)) - 1
	if more > 0 {
		for range more {
			b = append(b, 0)
		}
		copy(b[at+more:], b[at:at+size])
	}
	protowire.AppendVarint(b[:at-1], uint64(size))
	return b
}
