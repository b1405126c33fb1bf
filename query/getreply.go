package query

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// GetReply is a GetResponse as far as a router reads it.
type GetReply struct {
	// Bytes is the response.
	Bytes []byte
	Found bool
	// Served says that the replica is named that answered; the others are what is told of it.
	Served bool
	// Serves says that it was the active under a lease, HasLag that it knew its offset lag, and End is the changelog's end as it
	// knew it.
	Serves, HasLag bool
	End            int64
	// Role is the replica's, 0 where this version knows no such; TimeLag and OffsetLag are how far it was behind,
	// metadata.LagUnknown where it did not say.
	Role      metadata.Role
	TimeLag   time.Duration
	OffsetLag int64
}

// Field numbers of GetResponse and ReplicaStatus in query.proto.
const (
	replyFound  protowire.Number = 1
	replyServed protowire.Number = 4

	statusRole        protowire.Number = 4
	statusEndPosition protowire.Number = 8
	statusOffsetLag   protowire.Number = 9
	statusTimeLag     protowire.Number = 10
	statusLeaseValid  protowire.Number = 13

	durationSeconds protowire.Number = 1
	durationNanos   protowire.Number = 2
)

// ParseGetReply reads a response. The error says what is wrong with its bytes.
func ParseGetReply(reply []byte) (GetReply, error) {
	r := GetReply{Bytes: reply, TimeLag: metadata.LagUnknown, OffsetLag: metadata.LagUnknown}
	var leased bool
	for at := reply; len(at) > 0; {
		f, rest, err := nextField(at)
		if err != nil {
			return r, err
		}
		at = rest
		switch {
		case f.number == replyFound && f.kind == protowire.VarintType:
			r.Found = f.varint != 0
		case f.number == replyServed && f.kind == protowire.BytesType:
			r.Served = true
			if err := r.setStatus(f.bytes, &leased); err != nil {
				return r, err
			}
		}
	}
	r.Serves = r.Role == metadata.RoleActive && leased
	return r, nil
}

// setStatus takes what is told of the replica.
func (r *GetReply) setStatus(status []byte, leased *bool) error {
	for len(status) > 0 {
		f, rest, err := nextField(status)
		if err != nil {
			return err
		}
		status = rest
		switch {
		case f.number == statusTimeLag && f.kind == protowire.BytesType:
			if r.TimeLag, err = parseDuration(f.bytes, max(r.TimeLag, 0)); err != nil {
				return err
			}
		case f.kind != protowire.VarintType:
		case f.number == statusRole:
			r.Role = roleOf(f.varint)
		case f.number == statusEndPosition:
			r.End = int64(f.varint)
		case f.number == statusOffsetLag:
			r.HasLag, r.OffsetLag = true, int64(f.varint)
		case f.number == statusLeaseValid:
			*leased = f.varint != 0
		}
	}
	return nil
}

// roleOf is a role of the wire, 0 for one that this version does not know.
func roleOf(n uint64) metadata.Role {
	switch n {
	case uint64(iqv1.Role_ROLE_ACTIVE):
		return metadata.RoleActive
	case uint64(iqv1.Role_ROLE_STANDBY):
		return metadata.RoleStandby
	case uint64(iqv1.Role_ROLE_WARMUP):
		return metadata.RoleWarmup
	}
	return 0
}

// parseDuration reads a google.protobuf.Duration. A message that is there twice is both together, so was is what there is.
func parseDuration(b []byte, was time.Duration) (time.Duration, error) {
	seconds, nanos := int64(was/time.Second), int64(was%time.Second)
	for len(b) > 0 {
		f, rest, err := nextField(b)
		if err != nil {
			return 0, err
		}
		b = rest
		switch {
		case f.kind != protowire.VarintType:
		case f.number == durationSeconds:
			seconds = int64(f.varint)
		case f.number == durationNanos:
			nanos = int64(int32(f.varint))
		}
	}
	d := durationpb.Duration{Seconds: seconds, Nanos: int32(nanos)}
	return d.AsDuration(), nil
}
