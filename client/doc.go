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
// # Direct mode
//
// With WithDirect, Get saves the hop through a router: the client follows the metadata of one of its targets, which must be
// routers, and asks the nodes itself.
//
//		c, err := client.New(routers, client.WithDirect(), client.WithReadOptions(client.MaxStaleness(10*time.Second)))
//
//	 1. follow.go keeps a stream of metadata to one router, and goes to the next when it breaks, falls silent or tells
//	    nonsense; table.go folds it into a metadata.View, in which lags age by this process's clock.
//	 2. direct.go decides by package routing, as a router would, and asks the replicas in order over connections of its own
//	    (nodes.go). The node judges again at the moment of the read, so a bound holds whatever the view says.
//	 3. Whatever stands in the way is a Detour: the read goes through a router, as without direct mode, within its time.
//	    Result.Way and Result.Detour say which way an answer came.
//
// Bounds: a view silent for MaxViewSilence decides nothing; at most MaxNodeConnections; each replica is asked once, and a
// share of the time is left for the router; streams that fail are opened again after pauses up to two seconds. Only Get
// goes directly.
//
// # What comes back
//
// A key that is absent is an answer: Result.Found is false, and the lag says how much that is worth. Errors are those of
// package iqerr, across the wire: errors.Is(err, iqerr.ErrStale), errors.As(err, &stale). When more than one target
// failed, the error that says most is returned, and *CallError has all of them.
//
// A Client is safe for concurrent use, and has one connection per target, made when it is first needed. Only one with
// WithDirect has a goroutine of its own, from its first read until Close.
package client
