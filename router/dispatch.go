package router

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
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

	policy   *iqv1.ReadPolicy // as nodes are given it
	attempts []*iqv1.Attempt  // the failures, in order
	failures []failure        // the same, as the router has them
	missed   []*iqv1.GetResponse
}

// run returns the answer, or why there is none.
func (d *dispatch) run(ctx context.Context) (*iqv1.GetResponse, error) {
	d.policy = d.read.policy.ToProto(d.read.request.GetPolicy())
	d.missed = make([]*iqv1.GetResponse, len(d.plan.Decisions))
	targets := d.plan.Targets
	if d.mayHedge() {
		resp, err, asked := d.hedge(ctx, targets[0], targets[1])
		if err == nil {
			return d.finish(resp), nil
		}
		if !iqerr.Retriable(err) || ctx.Err() != nil {
			return nil, d.refuse(d.last())
		}
		targets = targets[asked:]
	}
	for i, t := range targets {
		if d.missed[t.Decision] != nil {
			continue // this partition has answered
		}
		if len(d.attempts) > 0 && !d.router.retries.spend() {
			break
		}
		resp, err := d.try(ctx, t, len(targets)-i-1)
		if err != nil {
			d.note(t, err)
			if !iqerr.Retriable(err.err) || ctx.Err() != nil {
				return nil, d.refuse(d.last())
			}
			continue
		}
		d.missed[t.Decision] = resp
		if resp.GetFound() || d.allMissed() {
			return d.finish(resp), nil
		}
	}
	if len(d.failures) == 0 {
		return nil, d.unread()
	}
	return nil, d.refuse(d.failures[0])
}

// unread is why a key that is not in those of its partitions that could be read cannot be said to be nowhere.
func (d *dispatch) unread() error {
	for i := range d.missed {
		if decision := &d.plan.Decisions[i]; d.missed[i] == nil && decision.Eligible == 0 {
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

func (d *dispatch) allMissed() bool {
	for _, m := range d.missed {
		if m == nil {
			return false
		}
	}
	return true
}

// tryError is one replica's failure and how long it took.
type tryError struct {
	err     error
	elapsed time.Duration
}

// try asks one replica; left is how many there are after it.
func (d *dispatch) try(ctx context.Context, t routing.Target, left int) (*iqv1.GetResponse, *tryError) {
	start := time.Now()
	resp, err := d.ask(ctx, t, left)
	if err != nil {
		return nil, &tryError{err: err, elapsed: time.Since(start)}
	}
	return resp, nil
}

func (d *dispatch) ask(ctx context.Context, t routing.Target, left int) (*iqv1.GetResponse, error) {
	p := d.router.peers.get(t.Node)
	if p == nil {
		return nil, fmt.Errorf("node %s: %w: %w", t.Node.ID, errGone, iqerr.ErrNoReplica)
	}
	others := left > 0 || d.read.wait > 0
	ctx, end := p.begin(ctx, others)
	defer end()
	if others {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share(ctx, left+1, d.router.config.TryTimeout))
		defer cancel()
	}
	partition := t.Partition.Partition
	asked := d.read.request
	resp, err := p.query.Get(ctx, &iqv1.GetRequest{
		Store: t.Store, Key: asked.GetKey(), Policy: d.policy, Partition: &partition, Application: asked.GetApplication(),
		WindowStartMs: asked.WindowStartMs, SessionEndMs: asked.SessionEndMs, AsOfMs: asked.AsOfMs,
	})
	if err == nil {
		return resp, nil
	}
	if nodeLost(ctx, err) {
		return nil, lostAt(t)
	}
	return nil, iqerr.FromStatus(err)
}

// share is what one of several replicas gets of the time that is left: an equal part, at most most. Without a deadline it
// is most.
func share(ctx context.Context, replicas int, most time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return most
	}
	return min(most, time.Until(deadline)/time.Duration(max(2, replicas)))
}

// note keeps a failure for the caller to see.
func (d *dispatch) note(t routing.Target, e *tryError) {
	d.failures = append(d.failures, failure{t, e.err})
	d.read.failures++
	d.attempts = append(d.attempts, attemptToProto(t.Node, e))
}

// finish completes an answer with what the node cannot know: who failed before it, and how much further the log goes
// than the node has seen (S14).
func (d *dispatch) finish(resp *iqv1.GetResponse) *iqv1.GetResponse {
	resp.Attempts = append(d.attempts, resp.GetAttempts()...)
	routing.Complete(d.edition.view, resp)
	return resp
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
