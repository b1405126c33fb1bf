package serve

import (
	"context"
	"errors"

	"github.com/iqgate/iqgate/fault"
	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
	"github.com/iqgate/iqgate/wire"
)

// A reading is one look at a replica that was within the policy, and what was known of the replica then.
type reading struct {
	was    metadata.Replica
	status *iqv1.ReplicaStatus
	input  metadata.Position
}

// proto is the reading as the wire tells it of a partition.
func (r reading) proto() *iqv1.PartitionRead {
	return &iqv1.PartitionRead{Partition: r.status.GetPartition(), Served: r.status, InputPosition: wire.Position(r.input)}
}

// read is see with what a message tells of it.
func (s *Server) read(ctx context.Context, p policy, id metadata.Partition, look func(*store.KV) (store.Checkpoint, error)) (reading, error) {
	was, err := s.see(ctx, p, id, look)
	if err != nil {
		return reading{}, err
	}
	return reading{was: was, status: wire.Status(s.cfg.NodeID, s.cfg.Address, was), input: was.Input}, nil
}

// served counts a read of a partition that was answered.
func (s *Server) served(p policy, was *metadata.Replica) {
	s.cfg.Reads.Of(was.Store).Served(tally.Policy(p.mode), was.Role, was.Lag.Time, was.Lag.Offsets)
}

// counted counts a read of a partition of a request that may have several; the caller has waited as the policy says.
func (s *Server) counted(p policy, id metadata.Partition, rd *reading, err error) {
	if err != nil {
		s.cfg.Reads.Of(id.Store).Refused(tally.Policy(p.mode), err)
		return
	}
	s.served(p, &rd.was)
}

// see lets look see the replica's store once and judges right after with what is known then (I4). What look has seen counts
// only when there is no error. look says at which position it saw the store.
func (s *Server) see(ctx context.Context, p policy, id metadata.Partition, look func(*store.KV) (store.Checkpoint, error)) (metadata.Replica, error) {
	node := s.node()
	r := node.Replica(id)
	if r == nil {
		return metadata.Replica{}, s.notHosted(node, id)
	}
	if p.mode == iqv1.ReadPolicy_MODE_STRONG {
		if err := s.settle(ctx, r); err != nil {
			return metadata.Replica{}, err
		}
	}
	was, err := r.Read(look)
	if errors.Is(err, store.ErrClosed) {
		return was, s.notOpen(p, id, r)
	}
	if err != nil {
		return was, s.readFailed(id, err)
	}
	if reason, why := judge(p, was, s.cfg.LagSampleMaxAge); reason != iqv1.Reason_REASON_UNSPECIFIED && !fault.PolicyNotRejudged {
		c := candidate(wire.Status(s.cfg.NodeID, s.cfg.Address, was), reason, why)
		return was, s.refuse(p, id, c, wire.Position(p.atLeast))
	}
	return was, nil
}

// readFailed says what a failure of the store is to a caller.
func (s *Server) readFailed(id metadata.Partition, err error) error {
	if errors.Is(err, store.ErrCorrupt) {
		if r := s.node().Replica(id); r != nil {
			r.Damaged(err)
		}
		return &iqerr.CorruptError{Node: s.cfg.NodeID, Store: id.Store, Partition: id.Partition, Problem: "its data are damaged; they are rebuilt from the changelog"}
	}
	return err
}
