package client

import (
	"bytes"
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// VerifyReplica has a node compare one of its replicas with the changelog, and its files with their checksums, and returns the
// result. The client's first target must be that node. progress, which may be nil, is told how it goes. The call takes what it
// takes; it ends with ctx. A replica whose files are damaged is a Corrupt error, and is being rebuilt.
func (c *Client) VerifyReplica(ctx context.Context, req *iqv1.VerifyReplicaRequest, progress func(*iqv1.VerifyReplicaResponse)) (*iqv1.VerifyResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.targets[0].verify.VerifyReplica(ctx, req)
	if err != nil {
		return nil, iqerr.FromStatus(err)
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errUnfinished
		case err != nil:
			return nil, iqerr.FromStatus(err)
		case m.GetResult() != nil:
			return m.GetResult(), nil
		case progress != nil:
			progress(m)
		}
	}
}

// A State is what a node's replica was when it was compared with others.
type State struct {
	// Status is of the replica. Its node and position tell whose state, and of when.
	Status *iqv1.ReplicaStatus
	// Digest sums up the entries that were compared, which are Entries; LeftOut are those that change between the states.
	Digest           []byte
	Entries, LeftOut int64
	// Err is why there is no digest.
	Err error
}

// CompareReplicas compares the replicas of a store partition on several nodes, each the first target of a client, while they
// run: each keeps a state, and sums up what all of these must have in common. The states are in the order of the nodes. Equal
// reports whether all that could be asked agree; with fewer than two of them they do.
func CompareReplicas(ctx context.Context, store string, partition int32, nodes []*Client) (states []State, equal bool) {
	states = make([]State, len(nodes))
	pins := make([]*iqv1.PinStateResponse, len(nodes))
	var g errgroup.Group
	for i, c := range nodes {
		g.Go(func() error {
			pin, err := c.targets[0].verify.PinState(ctx, &iqv1.PinStateRequest{Store: store, Partition: partition})
			pins[i], states[i].Status, states[i].Err = pin, pin.GetStatus(), iqerr.FromStatus(err)
			return nil
		})
	}
	_ = g.Wait() // failures are in the states
	req, log := common(pins)
	for i, c := range nodes {
		pin := pins[i]
		if pin == nil {
			continue
		}
		if !bytes.Equal(pin.GetChangelogId(), log) {
			states[i].Err = errOtherLog
			continue
		}
		g.Go(func() error {
			sum, err := c.targets[0].verify.DigestState(ctx, &iqv1.DigestStateRequest{
				Pin: pin.GetPin(), From: req.GetFrom(), To: req.GetTo(), StreamTimeMs: req.GetStreamTimeMs(),
			})
			states[i].Digest, states[i].Entries, states[i].LeftOut, states[i].Err = sum.GetDigest(), sum.GetEntries(), sum.GetLeftOut(), iqerr.FromStatus(err)
			return nil
		})
	}
	_ = g.Wait()
	return states, agree(states)
}

// errOtherLog says that a replica follows another topic of the same name.
var errOtherLog = errors.New("it follows another changelog topic of the same name")

// common is what makes pinned states comparable: from the lowest position to the largest end, as of the latest stream time.
func common(pins []*iqv1.PinStateResponse) (req *iqv1.DigestStateRequest, log []byte) {
	req = &iqv1.DigestStateRequest{From: -1, StreamTimeMs: -1}
	for _, p := range pins {
		if p == nil {
			continue
		}
		if req.From < 0 {
			req.From, log = p.GetPosition(), p.GetChangelogId()
		}
		req.From = min(req.GetFrom(), p.GetPosition())
		req.To = max(req.GetTo(), p.GetEnd(), p.GetPosition())
		req.StreamTimeMs = max(req.GetStreamTimeMs(), p.GetStreamTimeMs())
	}
	return req, log
}

// agree reports whether all digests are the same.
func agree(states []State) bool {
	var first []byte
	for _, s := range states {
		switch {
		case errors.Is(s.Err, errOtherLog):
			return false
		case s.Err != nil:
		case first == nil:
			first = s.Digest
		case !bytes.Equal(first, s.Digest):
			return false
		}
	}
	return true
}
