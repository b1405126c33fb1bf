// Package serve answers for a node: queries of the store partitions that it holds, and questions about who hosts what. What
// is not here it refuses, so a request is never sent on.
//
// # The seam
//
// node.go is all that is asked of the node: a Node knows the stores and replicas, a Replica lets a reader look at its store
// and tells what it was meanwhile. What processes, replicates, leads or follows is on the other side, in package node. In the
// other direction goes Changes alone: whoever applies to a replica publishes it there (changes.go).
//
// # How a read is answered
//
//  1. request.go checks the policy, lookup.go, scan_request.go and package query the rest of the request.
//  2. query.go finds the partitions of a key: those that are here, by the store's partitioner.
//  3. reading.go looks: a strong read lets the commit in flight land first, the look sees value and position as one, and what
//     the replica was throughout comes with it.
//  4. judge.go decides with that whether the policy allows the answer. It is the authority; what a router knew is a hint.
//  5. A policy that waits tries again with each news (await in query.go), until it holds or its time is over.
//
// Get is query.go, from Get over get, tryKey and tryRead to read. The others are the same with more of something: multiget.go
// many keys, each partition in one snapshot; scan.go many rows, whose sources (scan_source.go) pin a snapshot of each
// partition and whose rows come from scan_rows.go and, for histories, scan_versions.go, to a reader that may be slow
// (scan_sender.go); count.go their number.
//
// subscribe.go is Watch: subscribe_partition.go follows one partition, through what Changes brings and, for what lies before
// that, the changelog itself (subscribe_changelog.go). metadataserver.go answers who hosts what, watch.go as a stream.
//
// # What must hold
//
//   - I4: a policy is judged after the value was read, with the position of that very read.
//   - I8: no strong or active read without a lease that holds before and after it.
//   - A stream that ends with OK was whole; whatever else happens has a reason by which the caller goes on elsewhere.
//   - No reader holds a store up: whoever takes nothing for Config.ScanIdle is ended and its snapshots are released.
package serve
