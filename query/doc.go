// Package query is the checked form of the requests that concern more than one key (scans, counts, many keys at once,
// watches), and what a node and a router share in answering them. It does no I/O: a store's facts are given, time is not
// looked at.
//
// # Requests
//
// ParseScan, ParseCount, ParseMultiGet and ParseWatch check a request against the store that it names and give its checked
// form. The error holds an *iqerr.InvalidError for each wrong field. Read policy, application and the partition of a key
// are for the caller to judge.
//
// # A scan's places
//
// A Place says how far a scan has come in one partition: not begun, behind the cursor of an entry, or done. A page token
// (token.go) is the places of all partitions, bound to the request and to the log that the store is made of: another
// request cannot use it, and one that outlives its changelog is refused as PAGE_LOST and not answered wrongly. Cursors mean
// the same on every replica, so a token goes on wherever there is a replica.
//
// A router asks a node for one partition at a time (Scan.ForPartition), and goes on at another replica with a token made of
// the last cursor that it has sent on.
//
// # What a node's streams look like
//
// Node and router rely on each other in this:
//
//   - The first message of a Scan comes at once, before an entry is looked for, and has the PartitionRead. So has the first
//     of a Watch for each partition. A router takes a node that says nothing for one that hangs.
//   - A message of a scan has at most MaxBatchRows rows, and at most MaxBatchBytes of them unless it is one row alone.
//   - Each row of a node's scan has its cursor.
//   - A Watch's positions come with changes, and with current; not before current, because who goes on from them would
//     miss the rest of what was there.
//   - A stream ends with OK only when all has been sent. It ends with SLOW_READER when a send has waited for the idle lease:
//     a router whose other partitions come first in the order of keys is such a reader, and asks again when it needs more.
//
// # Filter
//
// filter.go evaluates CEL (https://cel.dev), and is the only code that knows it. An expression is compiled once a request.
// Its size and the cost of each evaluation are bounded. An evaluation that fails ends the request as INVALID, with the
// key in its text: an entry without a field that the expression names is the caller's to provide for, with has().
//
// # Merge
//
// Merge makes one stream in the order of keys out of the streams of several partitions, and hands out runs of rows, not
// single ones: rows that lie together in one partition pass as they came.
package query
