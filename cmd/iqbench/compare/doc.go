// Package compare is the command iqbench compare: the product beside Kafka Streams and beside bare gRPC, in one run.
//
//  1. run.go starts a Kafka and writes the input. Each group of measures then plays its rounds, one measure after another and
//     in the opposite order every other round, so that whatever else the machine does meets all alike.
//  2. A measure takes figures of one subject, once a round, and has one function: measure_reads.go (lookups at a node, through
//     a router, at Kafka Streams, at bare servers), measure_life.go (processing, memory, restoring, starts), measure_flow.go
//     (what a standby lacks, lookups while a node processes). It starts the subjects it needs (ours.go, theirs.go); they stay
//     until the group ends. What the product does not have yet is a measure that says so (missing).
//  3. load.go asks: 4 connections with 16 lookups in flight, or one with one, both sides with the same bytes.
//  4. rows.go is the table: which figures are compared, how, and what is wanted. judge.go is its arithmetic, pure: the median
//     over the rounds of either side, and their ratio.
//  5. report.go writes the table, the object of --json and the Markdown report; plot.go its picture; machine.go says on what
//     all of it was measured.
//
// Invariants: a ratio is of medians from the same rounds of the same run. A figure that could not be taken is missing, never
// made up, and a row without both figures is not ok. Whatever ends a run, no process and no file of it is left.
package compare
