package serve

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/wire"
)

// Field numbers of GetResponse in query.proto.
const (
	replyFound       protowire.Number = 1
	replyValue       protowire.Number = 2
	replyTimestampMs protowire.Number = 3
	replyServed      protowire.Number = 4
	replyInput       protowire.Number = 5
	replyDecision    protowire.Number = 7
	replyValidUntil  protowire.Number = 8
)

// replyRoom is what a reply takes besides its value, mostly.
const replyRoom = 256

// reply writes a GetResponse: what was found, and what the replica was meanwhile.
func (s *Server) reply(f *found, was *metadata.Replica, explain bool) ([]byte, error) {
	b := make([]byte, 0, replyRoom+len(f.value.Bytes))
	if f.ok {
		b = wire.AppendPresent(b, replyFound, 1)
		if len(f.value.Bytes) > 0 {
			b = protowire.AppendBytes(protowire.AppendTag(b, replyValue, protowire.BytesType), f.value.Bytes)
		}
		b = wire.AppendInt(b, replyTimestampMs, f.value.Timestamp)
	}
	b = wire.AppendStatus(b, replyServed, s.cfg.NodeID, s.cfg.Address, was)
	b = wire.AppendPosition(b, replyInput, was.Input)
	if explain {
		c := candidate(wire.Status(s.cfg.NodeID, s.cfg.Address, *was), iqv1.Reason_REASON_UNSPECIFIED, "within the policy")
		c.Rank = 1
		decision, err := proto.Marshal(&iqv1.Decision{Store: was.Store, Partition: was.Partition.Partition, Candidates: []*iqv1.Candidate{c}})
		if err != nil {
			return nil, err
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, replyDecision, protowire.BytesType), decision)
	}
	if f.ok && f.until != nil {
		b = wire.AppendPresent(b, replyValidUntil, *f.until)
	}
	return b, nil
}
