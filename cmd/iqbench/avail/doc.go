// Package avail is the command iqbench avail: a probe of availability. It runs a cluster of processes, feeds and reads it at
// steady rates, has something happen to it round by round, and tells what the reads noticed.
//
//  1. kafka.go starts a Kafka and makes the topic; cluster.go starts routers and nodes, each a process (member.go), in a
//     network namespace of its own where packets are to be dropped (netns.go).
//  2. feed.go writes the input and keeps what was acknowledged. probe.go reads every partition under every policy, open loop,
//     and judges each reply by what earlier replies have shown.
//  3. scenario.go is what happens in a round. A round ends when cluster.go finds all well again.
//  4. measure.go is the arithmetic of gaps, stalls and staleness: pure, and tested by text and by slow twins.
//  5. verify.go compares every count with what was acknowledged; report.go says how it went.
//
// Invariants: no read delays another. A read belongs to the round in which it began, also when it ends later. What a reply
// has shown is committed, so a later strong read that shows less is wrong, whatever the clocks say: the probe needs no
// knowledge of the nodes' inside. Whatever ends a run, none of its processes, namespaces and, unless they are to be kept,
// files are left.
package avail
