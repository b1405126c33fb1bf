// Package group is how a node stays in its application's consumer group: it joins, is given tasks, says that it lives,
// assigns for all when it leads, and leaves.
//
//   - member.go speaks the group protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.
//   - lease.go says until when the node may speak as the active of what it owns.
//
// Who gets what is decided by assign.Plan; what the node does with what it was given is the node's. Both meet the member
// in Config, as functions.
//
// # What must hold
//
//   - I8: the lease counts from the sending of a heartbeat that came back well, and ends before the group can have given
//     the node's tasks away.
//   - When the membership is lost, or a generation was missed, everything that was owned is dropped before a membership or
//     a lease of a later generation exists.
//   - A task that moves is withheld until its owner has rejoined without it (KIP-429).
//   - A commit finds the generation of its moment: Current tells it as soon as JoinGroup has been answered (KIP-447).
package group
