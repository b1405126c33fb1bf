package router

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
	"github.com/iqgate/iqgate/tally"
)

// dispatch asks the replicas of one plan, in order.
//
//  1. Each is asked at most once. While others are left, a try may take its share of the time, at most TryTimeout, and
//     ends as soon as its node becomes suspect; the last one gets all the time there is.
//  2. A failure of one server leads to the next replica, within the retry budget. A wrong request does not.
//  3. An answer is an answer, found or not. Only a key that may be in several partitions is looked for in the next one
//     when it is not in the first; it is nowhere when all have said so.
//  4. When nobody answers, the first failure is what the caller gets, with all attempts attached: it comes from the
//     replica that should have answered. One that says no more than that a connection broke is made a refusal, which
//     names the store, the partition and its replicas.
type dispatch struct {
	router  *Router
	edition *edition
	read    *read
	plan    routing.Plan

	forward  []byte          // what nodes are asked, but for the partition
	attempts []*iqv1.Attempt // the failures, in order
	failures []failure       // the same, as the router has them
	missed   []bool          // by decision: it has answered that the key is not there
}

// run returns the answer, or why there is none.
func (d *dispatch) run(ctx context.Context) ([]byte, error) {
	var err error
	if d.forward, err = d.read.request.Forward(d.read.policy.ToProto(d.read.request.Policy)); err != nil {
		return nil, err
	}
	d.missed = make([]bool, len(d.plan.Decisions))
	targets := d.plan.Targets
	if d.mayHedge() {
		reply, err, asked := d.hedge(ctx, targets[0], targets[1])
		if err == nil {
			return d.finish(reply)
		}
		if !iqerr.Retriable(err) || ctx.Err() != nil {
			return nil, d.refuse(d.last())
		}
		targets = targets[asked:]
	}
	for i, t := range targets {
		if d.missed[t.Decision] {
			continue // this partition has answered
		}
		if len(d.attempts) > 0 && !d.router.retries.spend() {
			break
		}
		reply, err := d.try(ctx, t, len(targets)-i-1)
		if err != nil {
			d.note(t, err)
			if !iqerr.Retriable(err.err) || ctx.Err() != nil {
				return nil, d.refuse(d.last())
			}
			continue
		}
		d.missed[t.Decision] = true
		if reply.Found || !slices.Contains(d.missed, false) {
			return d.finish(reply)
		}
	}
	if len(d.failures) == 0 {
		return nil, d.unread()
	}
	return nil, d.refuse(d.failures[0])
}

// answer is what a replica answered.
type answer struct {
	query.GetReply
	partition metadata.Partition // that was asked for
	node      metadata.NodeID    // that answered
}

// isBehind says whether the view may know more of the changelog's end than the replica that answered; see routing.Complete.
func (a *answer) isBehind(v *metadata.View) bool {
	if !a.Served || !a.HasLag || a.Serves {
		return false
	}
	p, err := v.Partition(a.partition)
	return err == nil && p.End() > a.End
}

// unread is why a key that is not in those of its partitions that could be read cannot be said to be nowhere.
func (d *dispatch) unread() error {
	for i := range d.missed {
		if decision := &d.plan.Decisions[i]; !d.missed[i] && decision.Eligible == 0 {
			return decision.Refusal()
		}
	}
	return iqerr.ErrNoReplica
}

// failure is what one replica said that was asked and did not answer.
type failure struct {
	routing.Target
	err error
}

func (d *dispatch) last() failure { return d.failures[len(d.failures)-1] }

// tryError is one replica's failure and how long it took.
type tryError struct {
	err     error
	elapsed time.Duration
}

// try asks one replica; left is how many there are after it.
func (d *dispatch) try(ctx context.Context, t routing.Target, left int) (answer, *tryError) {
	start := time.Now()
	reply, err := d.ask(ctx, t, start, left)
	if err != nil {
		return reply, &tryError{err: err, elapsed: time.Since(start)}
	}
	return reply, nil
}

func (d *dispatch) ask(ctx context.Context, t routing.Target, now time.Time, left int) (answer, error) {
	p := d.router.peers.get(t.Node)
	if p == nil {
		return answer{}, goneAt(t)
	}
	until, others := d.read.until, left > 0 || d.read.wait > 0
	if others {
		until = now.Add(shareOf(until.Sub(now), left+1, d.router.config.TryTimeout))
	}
	bytes, err := p.lookup(ctx, query.ForPartition(d.forward, t.Partition.Partition), until, others)
	switch {
	case errors.Is(err, errLost):
		return answer{}, lostAt(t)
	case err != nil:
		return answer{}, iqerr.FromStatus(err)
	}
	reply, err := query.ParseGetReply(bytes)
	if err != nil {
		return answer{}, status.Errorf(codes.Internal, "node %s: its answer makes no sense: %s", t.Node.ID, err)
	}
	return answer{reply, t.Partition, t.Node.ID}, nil
}

// share is what one of several replicas gets of the time that is left to ctx. Without a deadline it is most.
func share(ctx context.Context, replicas int, most time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return most
	}
	return shareOf(time.Until(deadline), replicas, most)
}

// shareOf is what one of several replicas gets of the time that is left: an equal part, at most most.
func shareOf(left time.Duration, replicas int, most time.Duration) time.Duration {
	return min(most, left/time.Duration(max(2, replicas)))
}

// note keeps a failure for the caller to see.
func (d *dispatch) note(t routing.Target, e *tryError) {
	d.failures = append(d.failures, failure{t, e.err})
	d.read.failures++
	d.attempts = append(d.attempts, attemptToProto(t.Node, e))
	d.read.attempts = d.attempts
}

// finish completes an answer with what the node cannot know: who failed before it, how much further the log goes than the
// node has seen (S14), and the decision, for a caller who asks to explain. Mostly there is nothing to add, and the node's
// bytes are the answer.
func (d *dispatch) finish(reply answer) ([]byte, error) {
	d.read.served = served{reply.node, reply.partition.Partition, reply.Role, reply.Found, reply.TimeLag, reply.OffsetLag}
	d.router.readsOf(d.read.request.Store).Served(tally.Policy(d.read.policy.Mode), reply.Role, reply.TimeLag, reply.OffsetLag)
	if len(d.attempts) > 0 {
		d.router.counts.Failovers.Add(1)
	}
	explain := d.read.request.Explain
	if len(d.attempts) == 0 && !explain && !reply.isBehind(d.edition.view) {
		return reply.Bytes, nil
	}
	var m iqv1.GetResponse
	if err := proto.Unmarshal(reply.Bytes, &m); err != nil {
		return nil, status.Errorf(codes.Internal, "the answer of the node for %s makes no sense: %s", reply.partition, err)
	}
	m.Attempts = append(d.attempts, m.GetAttempts()...)
	routing.Complete(d.edition.view, &m)
	if explain {
		m.Decision = d.plan.ToProto()
	}
	return proto.Marshal(&m)
}

// refuse is the error that the caller gets for f, with all attempts attached.
func (d *dispatch) refuse(f failure) error {
	err := f.err
	if unanswered(err) {
		err = d.plan.Decisions[f.Decision].Unanswered(func(c *routing.Candidate) bool {
			return slices.ContainsFunc(d.failures, func(other failure) bool { return other.Candidate == c })
		})
	}
	return withAttempts(err, f.Partition, d.attempts)
}
