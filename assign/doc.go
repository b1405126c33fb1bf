// Package assign decides who runs and who follows which task. It is the answer to "why did this node get that task?".
//
// The group's leader calls Plan with what every member told when it joined, and hands the whole result, as
// EncodeAssignment writes it, to every member. Plan is a pure function; forming the group, handing tasks over and asking
// for the next rebalance is package node's work.
//
// # What a plan promises
//
//  1. Every task has one active, or is withheld: a task that has to move from a member that holds it is nobody's until
//     that member, seeing its assignment without the task, has handed over at a commit and joined again without it
//     (KIP-429). Of two claims to hold a task the one under the higher generation counts; of two under the same
//     generation none (KIP-792), and the task is withheld until both have given it up.
//  2. No node has two replicas of a task; of two members with one node id only the newer incarnation gets any.
//  3. A stateful task's active goes only to a ready replica while there is one: one that has caught up (lag within
//     AcceptableLag) or, while none has, one that is within AcceptableLag of the best. If it belongs elsewhere for
//     balance, a ready member has it meanwhile, the one that owns it if that is ready, and the other place reads up as a
//     warm-up (KIP-441), at most MaxWarmups of them in the group at once.
//  4. When all has caught up, each member has its share by capacity, rounded down or up, of all actives, of the stateful
//     and the stateless ones, and of each sub-topology. With equal capacities counts differ by one at most.
//  5. The fewest actives that such a balance allows move; of the ways to do that it takes one with the least to read up.
//  6. Each stateful task has min(Standbys, nodes-1) standbys, in racks that have the fewest of its replicas. They stay
//     where they are unless a better rack is free or their member has more than its share; and even then a ready copy
//     stays until its replacement is, which is a warm-up till then (after those of 3).
//  7. The same input, in any order, gives the same output.
//  8. A member that drains gets nothing new, has no share and is no replica as far as 3, 4 and 6 count them. An active of
//     its goes to a ready replica elsewhere, by the same hand-over as any; while there is none the member keeps it, and the
//     place that it is for reads up, as in 3 and before others. A stateless task goes at once. What the member follows it
//     follows on until it leaves, beside the others, so that it can serve meanwhile. Only a task that nobody owns and of
//     which no other member has a ready copy goes to one that drains, rather than be nobody's. When all members drain,
//     each keeps what it has and nobody gets anything but what would be nobody's.
//
// While a task is withheld, the member that is to have it next is among its standbys, beside the usual number, and the
// one that gives it up stays on as a standby where Standbys allows; so reads go on from the same copies.
//
// # How it settles
//
// A member joins again when it has given something up, and when a task of Given.Awaited has caught up. Each such round
// brings the plan nearer to the target, which stays the same: an unfinished move costs less to finish than to replace
// by another. When nothing is withheld and nothing awaited the plan is settled, and planning again changes nothing.
//
// What a plan promises is tried on random clusters and on groups to which one thing after another happens; on 100,000 by
//
//	IQGATE_ASSIGN_CLUSTERS=100000 go test -count=1 ./assign
//
// # The steps
//
//	current members ─▶ claims (plan.go) ─▶ target: cheapest flow (target.go, flow.go)
//	   ─▶ actives now, withheld (plan.go) ─▶ standbys (standby.go) ─▶ warm-ups (warmup.go)
package assign
