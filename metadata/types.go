package metadata

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// NodeID names a node for as long as its configuration says so; it survives restarts.
type NodeID string

// Incarnation is a node process's start, a number that grows with each start of the same node id.
type Incarnation int64

// Generation is the group generation under which a role was given. It only grows.
type Generation int64

// TaskID names a task: one partition of one sub-topology. Its text form is Kafka Streams' "0_3".
type TaskID struct {
	Subtopology int32
	Partition   int32
}

// String is Kafka Streams' form, sub-topology and partition joined by an underscore.
func (t TaskID) String() string {
	return strconv.Itoa(int(t.Subtopology)) + "_" + strconv.Itoa(int(t.Partition))
}

// Compare orders tasks by sub-topology, then partition.
func (t TaskID) Compare(o TaskID) int {
	if t.Subtopology != o.Subtopology {
		return int(t.Subtopology - o.Subtopology)
	}
	return int(t.Partition - o.Partition)
}

// ParseTaskID reads the form that String writes.
func ParseTaskID(s string) (TaskID, error) {
	sub, part, ok := strings.Cut(s, "_")
	if ok {
		a, errA := strconv.ParseInt(sub, 10, 32)
		b, errB := strconv.ParseInt(part, 10, 32)
		if errA == nil && errB == nil && a >= 0 && b >= 0 {
			return TaskID{Subtopology: int32(a), Partition: int32(b)}, nil
		}
	}
	return TaskID{}, fmt.Errorf("task id %q is not of the form <sub-topology>_<partition>", s)
}

// Partition names one partition of one store.
type Partition struct {
	Store     string
	Partition int32
}

// String is "store/partition".
func (p Partition) String() string { return p.Store + "/" + strconv.Itoa(int(p.Partition)) }

// Compare orders by store, then partition.
func (p Partition) Compare(o Partition) int {
	if c := strings.Compare(p.Store, o.Store); c != 0 {
		return c
	}
	return int(p.Partition - o.Partition)
}

// TopicPartition names one partition of one topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is Kafka's form, topic and partition joined by a hyphen.
func (t TopicPartition) String() string { return t.Topic + "-" + strconv.Itoa(int(t.Partition)) }

// Compare orders by topic, then partition.
func (t TopicPartition) Compare(o TopicPartition) int {
	if c := strings.Compare(t.Topic, o.Topic); c != 0 {
		return c
	}
	return int(t.Partition - o.Partition)
}

// Role is what a replica is for.
type Role int8

// The roles. A replica without a role does not exist, so there is no zero value to use.
const (
	// RoleActive processes the input and writes the changelog.
	RoleActive Role = iota + 1
	// RoleStandby only follows the changelog.
	RoleStandby
	// RoleWarmup is a standby kept only until it has caught up, when the active moves to it (KIP-441).
	RoleWarmup
)

// String is the role in the words of errors and pages.
func (r Role) String() string {
	switch r {
	case RoleActive:
		return "active"
	case RoleStandby:
		return "standby"
	case RoleWarmup:
		return "warmup"
	default:
		return "role(" + strconv.Itoa(int(r)) + ")"
	}
}

// State is where a replica is in its life:
//
//	RESTORING ──caught up──▶ RUNNING ──revoked, fenced──▶ SUSPENDED ──▶ CLOSED
//	    ▲                                                    │
//	    └──────────────── assigned again ────────────────────┘
type State int8

// The states.
const (
	// StateRestoring reads the changelog up and serves only as what it is, with its lag.
	StateRestoring State = iota + 1
	// StateRunning has caught up with the end that its restore began with, and goes on.
	StateRunning
	// StateSuspended is drained, fenced or lost: nobody writes it; its data stay readable within policy.
	StateSuspended
	// StateClosed is gone.
	StateClosed
)

// String is the state in the words of errors and pages.
func (s State) String() string {
	switch s {
	case StateRestoring:
		return "restoring"
	case StateRunning:
		return "running"
	case StateSuspended:
		return "suspended"
	case StateClosed:
		return "closed"
	default:
		return "state(" + strconv.Itoa(int(s)) + ")"
	}
}

// LagUnknown stands for a lag that no sample has measured yet.
const LagUnknown = -1

// LagInfo is how far a replica is behind (Kafka Streams' LagInfo, with time beside offsets).
type LagInfo struct {
	// Position is the next changelog offset to apply.
	Position int64
	// End is the changelog's high watermark as last learned; LagUnknown before the first sample.
	End int64
	// Offsets is max(0, End-Position), or LagUnknown.
	Offsets int64
	// Time is an upper bound on the staleness, or LagUnknown.
	Time time.Duration
	// SampleAge is how old the sample of End is; it bounds how far Offsets can be trusted.
	SampleAge time.Duration
}

// Replica is what a node says of one store partition that it hosts.
type Replica struct {
	Partition
	Role       Role
	State      State
	Generation Generation
	Lag        LagInfo
	// LeaseValid says that the node's membership lease held when it reported. Actives only.
	LeaseValid bool
	// Input is the input position, nil while unknown. It is never written after it was set.
	Input Position
}

// Position is, per input partition, the offset below which every record's effect is in the state (Kafka's IQv2
// Position).
type Position map[TopicPartition]int64

// Covers says whether p has reached every offset of want. An input partition that p does not know is not covered,
// unless want asks for nothing of it (offset 0 or less).
func (p Position) Covers(want Position) bool {
	for tp, offset := range want {
		if offset > 0 && p[tp] < offset {
			return false
		}
	}
	return true
}

// CoversAt is Covers for the offsets of want in partitions of that number: a store partition has the effect of no others
// (Kafka's PositionBound is judged like that).
func (p Position) CoversAt(want Position, partition int32) bool {
	for tp, offset := range want {
		if tp.Partition == partition && offset > 0 && p[tp] < offset {
			return false
		}
	}
	return true
}

// Merge returns the position that covers both p and o.
func (p Position) Merge(o Position) Position {
	m := make(Position, max(len(p), len(o)))
	maps.Copy(m, p)
	for tp, offset := range o {
		m[tp] = max(m[tp], offset)
	}
	return m
}

// Sorted lists the partitions of p in order, so that whoever prints or encodes it does so always alike.
func (p Position) Sorted() []TopicPartition {
	tps := make([]TopicPartition, 0, len(p))
	for tp := range p {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, TopicPartition.Compare)
	return tps
}

// StoreInfo describes a store to whoever reads it; it comes from the nodes, so that a router needs no schema.
type StoreInfo struct {
	Name        string
	Partitions  int32
	Kind        string // "keyvalue", "window", "session" or "versioned"
	KeySerde    string
	ValueSerde  string
	Partitioner string
	Changelog   string
	// ChangelogID is the changelog's topic id; empty when not known. As long as it stays the same, the end of a partition
	// never goes back (S14).
	ChangelogID  string
	SourceTopics []string
	// WindowSize is the length of a window store's windows; 0 for others.
	WindowSize time.Duration
	// Retention is how long windows, sessions and superseded versions are kept, by stream time; 0 for a key-value store.
	Retention time.Duration
	// ActualPartitions is the count that the source topics have now. Reads are refused when it differs from Partitions,
	// because a key may then live elsewhere than where it is looked for (S29).
	ActualPartitions int32
	// Followed says that the nodes follow the changelog of an application that runs elsewhere: none of them is ever the active.
	Followed bool
}

// Host is one node in a HostMap.
type Host struct {
	Node    NodeID
	Address string
	Rack    string
	Active  []Partition
	Standby []Partition // warm-ups too
}

// HostMap is the whole assignment as the group's leader made it in one generation (KIP-535's AssignmentInfo), so that
// each node can answer every metadata question alone.
type HostMap struct {
	Generation Generation
	Hosts      []Host
}
