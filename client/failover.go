package client

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// CallError is a call that no target answered. It wraps the error that says most of those that came back, so errors.Is
// and errors.As look through it.
type CallError struct {
	// Target said Err.
	Target string
	// Err is the error of that target, as package iqerr gives it.
	Err error
	// Attempts are all targets that were asked, in order; Address is the target.
	Attempts []*iqv1.Attempt
}

// Error is the text of a fact, which needs no address, or names the target that failed, and then the other targets.
func (e *CallError) Error() string {
	var b strings.Builder
	if iqerr.ReasonOf(e.Err) == iqv1.Reason_REASON_UNSPECIFIED {
		b.WriteString("ask " + e.Target + ": " + plain(status.Convert(e.Err).Message()))
	} else {
		b.WriteString(e.Err.Error())
	}
	for _, a := range e.Attempts {
		if a.GetAddress() != e.Target {
			b.WriteString("; " + iqerr.DescribeAttempt(a))
		}
	}
	return b.String()
}

// plain takes gRPC's wrapping off the text of a connection that failed. It is for the looks alone.
func plain(text string) string {
	const before, after = `connection error: desc = "transport: Error while dialing: `, `"`
	if inner, ok := strings.CutPrefix(text, before); ok {
		return strings.TrimSuffix(inner, after)
	}
	return text
}

// Unwrap gives the target's error.
func (e *CallError) Unwrap() error { return e.Err }

// ask sends one request to the targets in turn until one answers. It returns the attempts that failed before that.
// wait is how long the server may hold the request.
func ask[Req, Res any](ctx context.Context, c *Client, rpc func(*target, context.Context, Req) (Res, error), req Req, wait time.Duration) (Res, []*iqv1.Attempt, error) {
	ctx, cancel := c.bound(ctx, wait)
	defer cancel()
	var (
		zero     Res
		failed   *CallError
		attempts []*iqv1.Attempt
		first    = c.first.Load()
	)
	for n := range c.maxAttempts() {
		at := (int(first) + n) % len(c.targets)
		t := c.targets[at]
		started := time.Now()
		res, err := askOne(ctx, c.attemptTime(ctx, started, n, wait), rpc, t, req)
		if err == nil {
			if n > 0 {
				c.first.CompareAndSwap(first, int64(at))
			}
			return res, attempts, nil
		}
		err = iqerr.FromStatus(err)
		attempts = append(attempts, attemptOf(t, err, time.Since(started)))
		if failed == nil || weight(err) > weight(failed.Err) {
			failed = &CallError{Target: t.name, Err: err}
		}
		if ctx.Err() != nil || !iqerr.Retriable(err) || len(c.targets) == 1 && weight(err) > weightUnreached {
			break
		}
	}
	failed.Attempts = attempts
	return zero, nil, failed
}

// bound gives a call a deadline that its caller has not given.
func (c *Client) bound(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if _, bounded := ctx.Deadline(); bounded {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.opts.timeout+wait)
}

// maxAttempts is every target once, and a single target twice.
func (c *Client) maxAttempts() int { return max(len(c.targets), 2) }

func askOne[Req, Res any](ctx context.Context, limit time.Duration, rpc func(*target, context.Context, Req) (Res, error), t *target, req Req) (Res, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return rpc(t, ctx, req)
}

// attemptTime is how long attempt n, from 0, may take; 0 is all that is left. Every attempt but the last leaves time for
// those after it: an equal share of what is left, at most the attempt timeout, both not counting the wait that the caller
// asked the server for.
func (c *Client) attemptTime(ctx context.Context, now time.Time, n int, wait time.Duration) time.Duration {
	after := len(c.targets) - 1 - n
	if after <= 0 {
		return 0
	}
	deadline, _ := ctx.Deadline()
	share := (deadline.Sub(now) - wait) / time.Duration(after+1)
	if share <= 0 { // the wait takes all the time there is: let the first target have it
		return 0
	}
	return wait + min(share, c.opts.attemptTimeout)
}

func attemptOf(t *target, err error, elapsed time.Duration) *iqv1.Attempt {
	return attemptAt(t.name, t.name, err, elapsed)
}

func attemptAt(node, address string, err error, elapsed time.Duration) *iqv1.Attempt {
	st := status.Convert(iqerr.Status(err))
	a := &iqv1.Attempt{
		Node: node, Address: address, Code: st.Code().String(), Message: plain(st.Message()), Elapsed: durationpb.New(elapsed),
	}
	if reason := iqerr.ReasonOf(err); reason != iqv1.Reason_REASON_UNSPECIFIED {
		a.Reason = iqerr.Name(reason)
	}
	return a
}

// weightUnreached is the weight of errors that tell only that a target did not answer.
const weightUnreached = 0

// weight orders errors by how much they say to the caller. A router that knows the replicas' lags says more than one that
// knows nobody, and that more than one that could not be reached.
func weight(err error) int {
	switch iqerr.ReasonOf(err) {
	case iqv1.Reason_REASON_UNSPECIFIED:
		return weightUnreached
	case iqv1.Reason_REASON_NOT_READY, iqv1.Reason_REASON_CLOSING, iqv1.Reason_REASON_NOT_HOSTED,
		iqv1.Reason_REASON_SLOW_READER:
		return 1
	case iqv1.Reason_REASON_OVERLOADED, iqv1.Reason_REASON_NO_REPLICA, iqv1.Reason_REASON_CORRUPT:
		return 2
	case iqv1.Reason_REASON_NO_ACTIVE:
		return 3
	case iqv1.Reason_REASON_STALE, iqv1.Reason_REASON_POSITION_NOT_REACHED:
		return 4
	case iqv1.Reason_REASON_STORE_UNKNOWN, iqv1.Reason_REASON_INVALID, iqv1.Reason_REASON_PARTITIONS_CHANGED,
		iqv1.Reason_REASON_PAGE_LOST, iqv1.Reason_REASON_UNAUTHENTICATED, iqv1.Reason_REASON_PERMISSION_DENIED:
		return 5
	}
	return weightUnreached
}
