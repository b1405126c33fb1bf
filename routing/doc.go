// Package routing decides which replicas may answer a read, and in what order they are asked. Router and client decide by
// it, so a client that routes by itself sends a read where a router with the same view would.
//
//   - policy.go: what a caller asks for, checked and complete. request.go reads it from the wire.
//   - plan.go: the partitions of a key (Locate), and one order for all of them (MakePlan).
//   - decide.go: Decide judges every replica of one partition.
//   - explain.go: a decision in words, for callers who ask why.
//   - answer.go: what the view adds to an answer.
//   - wire.go: replicas, stores and positions to and from the wire.
//
// The package is pure: same view, query and now, same decision. It reads no clock, does no I/O and keeps nothing.
//
// What it leaves to others: keeping the view up to date, asking the replicas in the order given, and waiting (router,
// client). The node decides again with what it knows at the moment of the read: it is the authority, and the view a hint.
package routing
