// Package router is the front of an application: it knows from its nodes' heartbeats who holds what and how far behind,
// and sends each read to the best replica within the staleness that the caller asked for.
//
// # The way of a read
//
//  1. query.go checks the request, completes its policy and asks the store's partitioner for the key's partitions.
//  2. package routing judges every replica of each partition by the view: its Decide is a pure function of
//     (view, query, now) that orders those who may answer, or says for each why not.
//  3. dispatch.go asks them in order, each at most once, within the caller's deadline and the retry budget. A read is
//     idempotent, so a broken connection, a hanging node and a node that refuses all lead to the next replica.
//  4. The node is the authority: it judges the policy again with what it knows at the moment of the read. The view is a
//     hint, older than the truth by one heartbeat.
//  5. With wait, a read that nobody may answer is held until the view changes, see wait.go.
//
// A read of one key crosses the router as bytes. Package query reads from the wire what a decision needs; the policy is made
// complete, the partition filled in, and the rest goes on untouched, as the answer does unless there is something to add to it.
// All reads share one stream to each node (package mux); a node that does not know it is asked by calls. Lookups, the stream
// of callers, gives each of its lookups to the same code as Get.
//
// # The way of a scan, and of other reads of many keys
//
// What a request may ask for, its page tokens and the order of rows are package query's, which nodes use as well.
//
//   - scan.go reads each partition by a source (source.go) at its best replica, merges the sources by key or takes one after
//     the other, and hands messages to a sender (sender.go). A source that loses its replica goes on at another one, behind
//     the last row that it has received (failover.go). So a scan ends with OK when all has been sent, and else with an
//     error that names the partition (S17).
//   - count.go asks for each partition's count by the same failover, and sums.
//   - multiget.go groups keys by partition and asks each node once a round; a key that nobody answers carries its own error.
//   - statewatch.go follows each partition at one replica and goes on at another from the last position. It is patient for
//     watchPatience where a read is not, since a takeover is over by then.
//
// Nothing is read ahead but one message for each partition, and nothing at all while a large row is held. Whoever does not
// read is held for ScanIdle; whoever has gone ends everything at once.
//
// # The way of a heartbeat
//
// heartbeats.go takes the nodes' streams, board.go folds each report into the next metadata.View and swaps it
// (one writer at a time, readers without a lock). watch.go notices silence and broken streams, makes the node suspect
// and tells the others, so that they can act.
//
// # The way of a change
//
// follow.go tells each change of the view to whoever watches the metadata: roles, states and nodes at once, figures alone
// at the watcher's interval. What a slow reader has not heard is the difference between the view that it knows and the
// newest (metadata.Diff), so nothing piles up. drain.go forwards the order to drain to the node, and heartbeats.go tells a
// draining node when nobody would miss it.
//
// # Bounds
//
// Tries per read: one per replica. Retries: retryPercent of the reads plus retryBurst. Reads held by wait: MaxWaiters.
// Hedges: hedgePercent of the reads. Streams of metadata: MaxWatchers. Scans: MaxScans, each idle for at most ScanIdle.
// Watches of state: MaxWatches. Nodes asked at once by a Count or MultiGet: maxFanOut. Rows of a message:
// query.MaxBatchRows and query.MaxBatchBytes. Messages: MaxMessageBytes. Stopping: StopTimeout.
// Each is named where it is defined.
//
// # Keepalive
//
// The router pings an idle connection to a node every PingEvery (10s) and gives it PingTimeout (5s); a node must permit
// that: its server's enforcement policy needs MinTime below 10s (5s is right) and PermitWithoutStream. The router's own
// server permits its clients and nodes the same (permitPingEvery).
//
// # What it leaves to others
//
// Lag is measured by the nodes. Codes of errors are iqerr's. The package imports neither node nor client.
package router
