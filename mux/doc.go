// Package mux carries many lookups over one stream: the Lookups call of iq.v1, for both of its ends. A unary call costs gRPC
// some 20 us on each side, mostly for the stream that it opens and the frames that it writes alone; here a lookup costs a few
// entries in a message that others fill as well.
//
// # The asking side
//
//   - client.go: Client keeps one stream to one server open, as long as Run runs, and opens it again after pauses that grow.
//     Do asks one request and waits. While there is no stream, or the server does not know it, Do says ErrByCall, and the
//     caller asks by a call (Invoke): with a stream or without, a request meets the same answers.
//   - slots.go: each lookup in flight has a slot, whose number is its id on the wire. Slots are bounded. One whose caller has
//     gone stays taken until the answer comes, so that no late answer reaches another's lookup and a server that hangs is not
//     given more and more. When none is free a lookup fails at once.
//
// # The answering side
//
//   - serve.go: Serve reads the lookups of one stream and answers them by a Handler, on goroutines of their own, at most
//     MaxInFlight at a time; then it reads no more until answers have been sent.
//   - context.go: the context of a lookup costs nothing until somebody waits for its end.
//   - raw.go: Service has Get answered by the same Handler, from the wire's bytes to the wire's bytes.
//
// # Both sides
//
//   - outbox.go: what is to be sent is encoded into a message by those who send it, and one goroutine passes the message on
//     when nobody has more to add: it yields once before it takes the message, so that all who are about to add something do.
//     Each message is a fresh buffer, since gRPC keeps it until it is written.
//   - wire.go: the messages of query.proto, written and walked by hand: a request and a reply are never decoded on the way.
//   - codec.go: Codec passes bytes through gRPC as they are.
//
// # When a stream ends
//
//  1. With an error: every lookup in flight fails with UNAVAILABLE, as a call does whose connection breaks. Whoever may asks
//     another server: reads are idempotent.
//  2. In order, because the server stops: it has answered what it has read. What it has not is asked again by a call, and meets
//     what a call to a stopping server meets.
//
// Large requests and replies (MaxItemBytes) are left to calls, so that none holds up the others.
//
// # Invariants
//
// A lookup is answered once or fails once, never both. An answer reaches the lookup that asked for it and no other. The number
// of lookups in flight, and so the memory of both sides, is bounded by MaxInFlight a stream.
package mux
