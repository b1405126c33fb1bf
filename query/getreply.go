package query

import (
	"google.golang.org/protobuf/encoding/protowire"

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
}

// Field numbers of GetResponse and ReplicaStatus in query.proto.
const (
	replyFound  protowire.Number = 1
	replyServed protowire.Number = 4

	statusRole        protowire.Number = 4
	statusEndPosition protowire.Number = 8
	statusOffsetLag   protowire.Number = 9
	statusLeaseValid  protowire.Number = 13
)

// ParseGetReply reads a response. The error says what is wrong with its bytes.
func ParseGetReply(reply []byte) (GetReply, error) {
	r := GetReply{Bytes: reply}
	var active, leased bool
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
			for status := f.bytes; len(status) > 0; {
				f, rest, err := nextField(status)
				if err != nil {
					return r, err
				}
				status = rest
				if f.kind != protowire.VarintType {
					continue
				}
				switch f.number { //nolint:exhaustive // the library's numbers are no fields
				case statusRole:
					active = f.varint == uint64(iqv1.Role_ROLE_ACTIVE)
				case statusEndPosition:
					r.End = int64(f.varint)
				case statusOffsetLag:
					r.HasLag = true
				case statusLeaseValid:
					leased = f.varint != 0
				}
			}
		}
	}
	r.Serves = active && leased
	return r, nil
}
