package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// direct reads from the nodes themselves.
//
//  1. decide: by the newest view, the store's partitioner and routing.MakePlan, as a router would. Whatever stands in the
//     way is a Detour, and the read goes through a router.
//  2. ask: the replicas in order, each at most once. A refusal, a broken connection or a node that does not answer in its
//     share of the time leads to the next; a share is always left for the router.
//  3. A key that may be in several partitions is looked for in the next one when it is not in the first; it is nowhere when
//     all have said so.
//  4. When nobody answers, the read goes through a router, with what is left of its time.
type direct struct {
	follower     *follower
	nodes        *nodes
	partitioners *partitioner.Registry
	most         time.Duration // that one node may take
}

func newDirect(o *options, targets []*target, first int) *direct {
	ns := newNodes(append(dialOptions(), o.dial...), o.lookups)
	return &direct{follower: newFollower(targets, ns, first), nodes: ns, partitioners: o.partitioners, most: o.attemptTimeout}
}

func (d *direct) close() error {
	d.follower.close()
	return d.nodes.follow(nil)
}

// answer is how a read in direct mode went.
type answer struct {
	response *iqv1.GetResponse
	err      error           // when no other replica or router can do better
	attempts []*iqv1.Attempt // the nodes that were asked and did not answer
	detour   Detour          // when the read is to go through a router
}

// get reads from the nodes. ctx has a deadline.
func (d *direct) get(ctx context.Context, r *read) answer {
	d.follower.begin() //nolint:contextcheck // what it starts outlives the read
	e, p, detour := d.decide(r, time.Now())
	if detour != DetourNone {
		return answer{detour: detour}
	}
	if len(p.Decisions) == 0 {
		return answer{response: &iqv1.GetResponse{}} // the partitioner drops every record of this key, so it is nowhere
	}
	a := d.ask(ctx, r, &p)
	if a.response != nil {
		routing.Complete(e.view, a.response)
		if r.get.GetExplain() {
			a.response.Decision = p.ToProto()
		}
	}
	return a
}

// decide makes the plan of a read at now, or says why it cannot.
func (d *direct) decide(r *read, now time.Time) (*edition, routing.Plan, Detour) {
	var none routing.Plan
	e := d.follower.current.Load()
	switch {
	case e == nil || !e.view.Ready():
		return nil, none, DetourNoView
	case now.Sub(e.heard) > MaxViewSilence:
		return nil, none, DetourSilent
	case r.policy.GetMode() == iqv1.ReadPolicy_MODE_UNSPECIFIED && r.policy.MaxStaleness == nil && r.policy.MaxOffsetLag == nil:
		return nil, none, DetourNoPolicy
	}
	policy, err := routing.PolicyFromProto(&r.policy, routing.Policy{})
	if err != nil {
		return nil, none, DetourUndecided // a router says what is wrong with it
	}
	partition := int32(routing.NoPartition)
	if r.get.Partition != nil {
		partition = r.get.GetPartition()
	} else if info, err := e.view.Store(r.get.GetStore()); err == nil {
		if _, err := d.partitioners.Get(info.Partitioner); err != nil {
			return nil, none, DetourPartitioner
		}
	}
	partitions, err := routing.Locate(e.view, d.partitioners, r.get.GetStore(), r.get.GetKey(), partition)
	if err != nil {
		return nil, none, DetourUndecided
	}
	q := routing.Query{Policy: policy, Patient: r.wait() > 0}
	q.Store = r.get.GetStore()
	if policy.Prefer == routing.PreferLeastLoaded {
		q.Outstanding = d.nodes.outstanding
	}
	p, err := routing.MakePlan(e.view, q, partitions, now)
	if err != nil {
		return nil, none, DetourUndecided
	}
	return e, p, DetourNone
}

// ask asks the replicas of a plan in order.
func (d *direct) ask(ctx context.Context, r *read, p *routing.Plan) answer {
	a := answer{detour: DetourUnanswered}
	policy := p.Decisions[0].Query.Policy.ToProto(&r.policy)
	answered := make([]bool, len(p.Decisions))
	left := len(p.Decisions) // that have not answered
	for i, t := range p.Targets {
		if answered[t.Decision] {
			continue
		}
		started := time.Now()
		n := d.nodes.get(t.Node)
		if n == nil || n.rests(started) {
			continue
		}
		partition := t.Partition.Partition
		resp, err := n.get(ctx, share(ctx, started, len(p.Targets)-i, d.most), &iqv1.GetRequest{
			Store: t.Store, Key: r.get.GetKey(), Policy: policy, Partition: &partition, Application: r.get.GetApplication(),
			WindowStartMs: r.get.WindowStartMs, SessionEndMs: r.get.SessionEndMs, AsOfMs: r.get.AsOfMs,
		})
		if err != nil {
			a.attempts = append(a.attempts, attemptAt(string(t.Node.ID), t.Node.Address, err, time.Since(started)))
			if ctx.Err() != nil {
				return a
			}
			if !iqerr.Retriable(err) {
				a.err, a.detour = &CallError{Target: t.Node.Address, Err: err, Attempts: a.attempts}, DetourNone
				return a
			}
			continue
		}
		answered[t.Decision] = true
		if left--; resp.GetFound() || left == 0 {
			a.response, a.detour = resp, DetourNone
			return a
		}
	}
	return a
}

// get asks the node one read, for limit at most.
func (n *node) get(ctx context.Context, limit time.Duration, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	ctx, end := n.begin(ctx, limit)
	defer end()
	resp, err := n.ask(ctx, req)
	if err == nil {
		return resp, nil
	}
	if errors.Is(context.Cause(ctx), errSuspect) {
		return nil, fmt.Errorf("%w: %w", errSuspect, iqerr.ErrNoReplica)
	}
	if unreached(err, limit) {
		n.rest(time.Now().Add(nodeRest))
	}
	return nil, iqerr.FromStatus(err)
}

func (n *node) ask(ctx context.Context, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	if n.lookups != nil {
		return n.lookups.get(ctx, req)
	}
	return n.query.Get(ctx, req)
}

// unreached says whether a failure is that of no server: the connection broke or was not made, or nothing came within
// limit although that was time enough.
func unreached(err error, limit time.Duration) bool {
	if iqerr.ReasonOf(iqerr.FromStatus(err)) != iqv1.Reason_REASON_UNSPECIFIED {
		return false
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded && limit >= fairLimit
}

// share is what one of some replicas gets of the time that is left: an equal part, with one more for the router, at most
// most.
func share(ctx context.Context, now time.Time, replicas int, most time.Duration) time.Duration {
	deadline, _ := ctx.Deadline()
	return min(most, deadline.Sub(now)/time.Duration(replicas+1))
}
