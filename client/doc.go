// Package client reads state through iqgate: one Get with the staleness that the caller can bear, and the questions
// about who hosts what.
//
//	c, err := client.New([]string{"router-1:7000", "router-2:7000"})
//	...
//	r, err := c.Get(ctx, "by-dest", []byte("ATL"), client.MaxStaleness(10*time.Second))
//
// A target may be a router or a node: both answer the same services.
//
// # One call
//
// A call asks one target at a time, each at most once, and goes on to the next when iqerr.Retriable says that another may
// answer: unreachable, hanging, not ready, overloaded, or its replicas not within the policy. So one bad router costs
// time and never a read. A target that hangs is left after its share of the time (WithAttemptTimeout); a target that
// failed to answer is asked last from then on, until those before it fail. With a single target a broken connection is
// tried once more, because a target may be a name with several addresses. Reads are idempotent, so none of this can do
// harm; gRPC's own retries are off, since they would multiply with these.
//
// # What comes back
//
// A key that is absent is an answer: Result.Found is false, and the lag says how much that is worth. Errors are those of
// package iqerr, across the wire: errors.Is(err, iqerr.ErrStale), errors.As(err, &stale). When more than one target
// failed, the error that says most is returned, and *CallError has all of them.
//
// A Client is safe for concurrent use, and has one connection per target, made when it is first needed.
package client
