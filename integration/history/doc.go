// Package history judges what clients of a cluster saw against what really happened.
//
// A test keeps three lists while it disturbs a cluster: what was committed to the changelogs and when, by an observer of its
// own ([Commit]); each read with its reply ([Read]); and what nodes said of their replicas between reads ([Observation]).
// [History.Check] compares them afterwards, rule by rule. It is pure: no cluster, no clock.
//
// # Time
//
// Every moment is the time since the test began. A commit's true moment lies between Commit.NotBefore and Commit.By, so a
// rule that asks "was it committed by then" takes By, and one that asks "was it committed yet" takes NotBefore. A reply was
// made between Read.Invoked and Read.Returned. Each rule takes the side that excuses the cluster: what it reports is wrong
// however the events between two moments were ordered.
//
// # Rules
//
//   - committed (I1, I2): a value read is exactly the newest committed one below the position that the reply tells, and
//     was committed when the reply was made.
//   - ranges (I1, I2): the rows of a scan, the keys of a MultiGet and a count are exactly those of the state at the position
//     that was told for their partition, expired windows and older versions left out.
//   - fresh (I4, I5): a reply whose time lag is d has everything committed until d before the read, and d is within the bound.
//   - offsets (I4, I5): the same for offset lag, as of the sample that it was judged by.
//   - strong: a reply has everything committed before the read began, from a RUNNING active under its lease.
//   - active (I8): once one node has answered as the active, none of an earlier generation or position does.
//   - position: the input position told covers the one asked for, and the value has the effect of every input below it.
//   - monotonic: a replica never goes back within one life of its node.
//   - available: no read with policy any fails while a replica is there and can be reached, of each partition that it is about.
//   - grown (I9): the committed values of a key, window or session only grow, as sequence numbers and counts must.
//   - final (I9): the last committed value of each is the right one, and there are no others.
//   - idle (I6): a replica that has caught up says so, with lag 0.
package history
