// Package node is a node: it runs an application's tasks with exactly-once, keeps active and standby copies of its stores and
// knows how far each is behind. Package serve answers reads of what it holds.
//
// # Who owns what
//
//   - A group.Member keeps the node in the consumer group and gets its assignment; a group.Lease says until when the node
//     may speak as the active of what it owns.
//   - worker.go runs the active tasks, handover.go takes and gives them; task.go is one of them, promote.go how it becomes
//     ready, txn.go the commit. read_room.go says how many work at a time: while there are reads, one processor is theirs.
//   - replica.go is one store partition with its role and state, replicas.go all of them. A kafka.Fetcher reads the
//     changelogs for the replicas and the inputs for the tasks (input.go).
//   - bootstrap*.go begin a replica that is empty or far behind with a copy of another node's store, and give such copies;
//     reclaim.go gives disk space back.
//   - lag.go measures, sampler.go asks Kafka for the ends to measure against.
//   - serving.go is what package serve asks of the node and its replicas; heartbeat.go tells the routers.
//   - kinds*.go are the stores of other kinds, how they read and write changelogs, and the stream times that travel with the
//     committed offsets.
//   - node.go puts it together; topics.go waits for topics and makes the internal ones. What is asked of Kafka is package
//     kafka.
//
// Decisions are functions of values (lag.go, assign.Plan); the rest is shells around them.
//
// # What must hold
//
//   - I1: only what Kafka has committed is ever applied to a store. The tail reads committed; the worker applies after EndTxn.
//   - I2: a store's position is written with its data.
//   - I3: whoever applies to a replica holds its writer token: the tail for one batch, a task for its whole run.
//   - I4: what a replica tells of itself with a read is about the position of that very read.
//   - I5: a lag is measured from when a request was sent to when the reply is used, so it is never too small.
//   - I6: positions count control records and gaps as passed, so a replica that has caught up shows 0.
//   - I8: no strong or active read without a lease that holds before and after it.
//   - I9: input offsets, outputs and changelog are one transaction, and whatever goes wrong in it begins again from what
//     Kafka says is committed.
package node
