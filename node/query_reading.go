package node

import (
	"context"
	"errors"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

// A reading is one look at a replica that was within the policy, and what was known of the replica then.
type reading struct {
	status *iqv1.ReplicaStatus
	input  metadata.Position
}

// proto is the reading as the wire tells it of a partition.
func (r reading) proto() *iqv1.PartitionRead {
	return &iqv1.PartitionRead{Partition: r.status.GetPartition(), Served: r.status, InputPosition: positionProto(r.input)}
}

// read lets look see the replica's store once and judges right after with what is known then (I4). What look has seen counts
// only when there is no error. look says at which position it saw the store.
func (n *Node) read(ctx context.Context, p policy, id metadata.Partition, look func(*store.KV) (store.Checkpoint, error)) (reading, error) {
	up := n.up.Load()
	r := up.replicas.get(id)
	if r == nil {
		return reading{}, n.notHosted(up, id)
	}
	if p.mode == iqv1.ReadPolicy_MODE_STRONG {
		if f := r.flight.Load(); f != nil {
			select {
			case <-f.done:
			case <-ctx.Done():
				return reading{}, ctx.Err()
			}
		}
	}
	// What makes an active's answer good must hold before the read as well as after it.
	was, flying := *r.now.Load(), r.flight.Load()
	heldBefore := r.set.lease.Valid(time.Now())
	before := r.input.Load() // before the value, so that it never covers what the value does not have
	kv := r.kv.Load()
	if kv == nil {
		return reading{}, n.notOpen(p, r)
	}
	at, err := look(kv)
	if errors.Is(err, store.ErrClosed) {
		return reading{}, n.notOpen(p, r)
	}
	if err != nil {
		return reading{}, n.readFailed(id, err)
	}
	now := time.Now()
	st := throughout(was, *r.now.Load())
	f := facts{
		partition: r.id.Partition,
		standing:  st, lag: r.lag(st, at.Position, flying, now), sampleMaxAge: n.cfg.LagSampleMaxAge,
		leaseValid: heldBefore && r.set.lease.Valid(now),
	}
	if st.runsActive() && before != nil {
		f.input = *before
	} else if samples := r.samples.Load(); samples != nil {
		f.input = inputAt(*samples, at.Position)
	}
	status := statusProto(n.cfg.NodeID, n.address, metadata.Replica{
		Partition: id, Role: st.role, State: st.state, Generation: st.generation, Lag: f.lag, LeaseValid: f.leaseValid,
	})
	if reason, why := judge(p, f); reason != iqv1.Reason_REASON_UNSPECIFIED {
		return reading{}, refuse(p, id, candidate(status, reason, why), positionProto(p.atLeast))
	}
	return reading{status: status, input: f.input}, nil
}

// readFailed says what a failure of the store is to a caller.
func (n *Node) readFailed(id metadata.Partition, err error) error {
	if errors.Is(err, store.ErrCorrupt) {
		return &iqerr.CorruptError{Node: n.cfg.NodeID, Store: id.Store, Partition: id.Partition, Problem: "its data are damaged; they are rebuilt from the changelog"}
	}
	return err
}
