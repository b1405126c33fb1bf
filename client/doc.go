// Package client reads state through iqgate, with the staleness that the caller can bear: one key or many, a range of them, what
// they are now and each change to come. It answers the questions about who hosts what, and drains nodes.
//
//	c, err := client.New([]string{"router-1:7000", "router-2:7000"})
//	...
//	r, err := c.Get(ctx, "by-dest", []byte("ATL"), client.MaxStaleness(10*time.Second))
//	for row, err := range c.Scan(ctx, "by-dest", client.Prefix([]byte("A"))).Rows() { ... }
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
// goes directly: all other calls concern several partitions, which a router puts together.
//
// # One stream for many reads
//
// With WithLookups, the reads of Get go over one stream to each target or node that is asked (lookups.go, package mux). What
// they meet, and the way from target to target, is the same.
//
// # More than one key
//
// MultiGet (multiget.go) asks each target for the keys that those before it could not read. Scan (scan.go), Watch (watch.go),
// Drain and WatchMetadata are streams; tries.go leads each from target to target.
//
//  1. A stream that fails is gone on with at the next target, from what was received last: a page token, or positions. Each
//     target is asked once without progress; after any, all may be asked again. Streams without an end go on trying for
//     MaxResume, with pauses (resume.go).
//  2. A target that says nothing for too long (MaxSilence) counts as failed.
//  3. What cannot be gone on from (iqerr.ErrPageLost) ends the loop with the error; so does a wrong request.
//
// Invariant: a loop over Scanner.Rows ends without an error only when everything that was asked for has been handed over, each
// row once and in order. An end that the server calls good while its last token says that rows are left is none. All options
// are in read.go and call.go; one that is not for a call is an error that names both.
//
// # Sessions
//
// A Session (session.go) makes the reads of one reader monotonic, whichever replicas answer, and lets it read its own writes.
//
// Invariant: the position that a session asks for of a store never goes back, and covers every reply that was there when the
// read began.
//
// # What comes back
//
// A key that is absent is an answer: Result.Found is false, and the lag says how much that is worth. Errors are those of
// package iqerr, across the wire: errors.Is(err, iqerr.ErrStale), errors.As(err, &stale). When more than one target
// failed, the error that says most is returned, and *CallError has all of them.
//
// A Client is safe for concurrent use, and has one connection per target, made when it is first needed. Only one with
// WithDirect or WithLookups has goroutines of its own, from its first read until Close.
package client
