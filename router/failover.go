package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/routing"
	"github.com/iqgate/iqgate/tally"
)

// failover finds a replica of one partition that does what is asked, and another one when that breaks.
//
//  1. The view names the replicas, best first. Each is asked at most once until there is progress: the caller says by
//     progress that a replica did something useful, by broke that its stream broke.
//  2. A failure of one server leads to the next replica, within the retry budget. A wrong request does not.
//  3. When nobody is left it waits for a newer view, as long as the policy's wait allows since there was progress, and asks
//     all again.
//  4. The first failure since the last progress is the caller's error, with all attempts attached.
type failover struct {
	router *Router
	query  routing.Query
	wait   time.Duration

	asked    map[string]bool // nodes, since the last progress
	failures []failure
	attempts []*iqv1.Attempt
	since    time.Time         // of the first of the failures
	decision *routing.Decision // the newest
}

// attempt asks one replica; left is how many there are after it. A failure ends with an error of iqerr or a status.
type attempt func(ctx context.Context, t routing.Target, p *peer, left int) error

// run calls try for one replica after the other until one does not fail.
func (f *failover) run(ctx context.Context, try attempt) error {
	err := f.search(ctx, try)
	if err != nil {
		f.router.readsOf(f.query.Store).Refused(tally.Policy(f.query.Policy.Mode), err)
	} else if len(f.failures) > 0 {
		f.router.counts.Failovers.Add(1)
	}
	return err
}

// search is run without its counting of failures.
func (f *failover) search(ctx context.Context, try attempt) error {
	now := time.Now()
	until := now.Add(f.wait)
	if len(f.failures) > 0 {
		until = f.since.Add(f.wait)
	}
	query := f.query
	query.Patient = until.After(now)
	held := waiter{router: f.router, until: until}
	defer held.leave()
	for free := len(f.failures) == 0; ; free = true {
		e := f.router.board.load()
		err := f.round(ctx, e, query, free, try)
		if err == nil || !query.Patient || !mayPass(err) || ctx.Err() != nil {
			return err
		}
		over, err := held.forNext(ctx, e, len(f.failures), err)
		if err != nil {
			return err
		}
		query.Patient = !over // once more then, and suspect nodes are asked too for want of others
		clear(f.asked)
	}
}

// round asks whom the view of one edition names. The first try is free unless a stream broke just now: a read that waits is
// held back by its pauses.
func (f *failover) round(ctx context.Context, e *edition, query routing.Query, free bool, try attempt) error {
	d, err := routing.Decide(e.view, query, time.Now())
	if err != nil {
		return withAttempts(err, query.Partition, f.attempts)
	}
	f.decision = &d
	for i := range d.Eligible {
		t := routing.Target{Candidate: &d.Candidates[i]}
		if f.asked[string(t.Node.ID)] {
			continue
		}
		if !free && !f.router.retries.spend() {
			break
		}
		free = false
		start := time.Now()
		if err = f.one(ctx, t, d.Eligible-i-1, try); err == nil {
			f.router.readsOf(query.Store).Served(tally.Policy(query.Policy.Mode), t.Role, t.Lag.Time, t.Lag.Offsets)
			return nil
		}
		f.note(t, err, time.Since(start))
		if !iqerr.Retriable(err) || ctx.Err() != nil {
			return f.refuse(f.failures[len(f.failures)-1])
		}
	}
	return f.refuse(f.failures[0]) // there is one: of this round, or that for which all were asked
}

func (f *failover) one(ctx context.Context, t routing.Target, left int, try attempt) error {
	p := f.router.peers.get(t.Node)
	if p == nil {
		return goneAt(t)
	}
	return try(ctx, t, p, left)
}

// note keeps a failure. Its replica is not asked again before there is progress.
func (f *failover) note(t routing.Target, err error, elapsed time.Duration) {
	if f.asked == nil {
		f.asked = map[string]bool{}
	}
	f.asked[string(t.Node.ID)] = true
	if len(f.failures) == 0 {
		f.since = time.Now()
	}
	f.failures = append(f.failures, failure{t, err})
	f.attempts = append(f.attempts, attemptToProto(t.Node, &tryError{err: err, elapsed: elapsed}))
}

// steadyFor is how long a stream must have stood to count as progress although it sent nothing.
const steadyFor = 10 * time.Second

// broke keeps the failure of a stream that stood since opened, and says whether another replica may go on. If not, the error
// is the caller's.
func (f *failover) broke(t routing.Target, err error, opened time.Time) error {
	stood := time.Since(opened)
	if stood >= steadyFor {
		f.progress()
	}
	f.note(t, err, stood)
	if !iqerr.Retriable(err) {
		return f.refuse(f.failures[len(f.failures)-1])
	}
	return nil
}

// progress forgets the failures: each replica may be asked again.
func (f *failover) progress() {
	if len(f.failures) > 0 {
		clear(f.asked)
		f.failures, f.attempts = nil, nil
	}
}

// refuse is the error that the caller gets, which names the partition.
func (f *failover) refuse(first failure) error {
	err := first.err
	if unanswered(err) {
		err = f.decision.Unanswered(func(c *routing.Candidate) bool { return f.asked[string(c.Node.ID)] })
	}
	return naming(withAttempts(err, f.query.Partition, f.attempts), f.query.String())
}

// nodeLost says whether a call failed with err because its node was lost meanwhile: the call was given up, or the router has
// closed the connection of a node that is dead, which the client library calls cancelled although nobody cancelled.
func nodeLost(ctx context.Context, err error) bool {
	return errors.Is(context.Cause(ctx), errLost) || ctx.Err() == nil && status.Code(err) == codes.Canceled
}

// goneAt and lostAt say of one node what errGone and errLost say.
func goneAt(t routing.Target) error {
	return fmt.Errorf("node %s: %w: %w", t.Node.ID, errGone, iqerr.ErrNoReplica)
}

func lostAt(t routing.Target) error {
	return fmt.Errorf("node %s: %w: %w", t.Node.ID, errLost, iqerr.ErrNoReplica)
}

// naming puts what an error is about before its text, where that does not say so.
func naming(err error, what string) error {
	st := status.Convert(iqerr.Status(err))
	if strings.Contains(st.Message(), what) {
		return err
	}
	p := st.Proto()
	p.Message = what + ": " + p.GetMessage()
	return status.FromProto(p).Err()
}

// selected are the partitions that a selection names, those of its one key, or all. None is possible: a key that the
// store's partitioner drops is in no partition.
func (r *Router) selected(e *edition, s *query.Selection) ([]int32, error) {
	if s.Key == nil || s.Partitions != nil {
		return s.All(), nil
	}
	partitions, err := routing.Locate(e.view, r.config.Partitioners, s.Store.Name, s.Key, routing.NoPartition)
	return slices.Sorted(slices.Values(partitions)), err // a partitioner may keep its list
}

// queryOf is what Decide needs to know of a read of one partition.
func (r *Router) queryOf(store string, partition int32, policy routing.Policy) routing.Query {
	q := routing.Query{Policy: policy, SampleMaxAge: r.config.SampleMaxAge}
	q.Store, q.Partition.Partition = store, partition
	if policy.Prefer == routing.PreferLeastLoaded {
		q.Outstanding = r.peers.outstanding
	}
	return q
}
