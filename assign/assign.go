package assign

import (
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// Member is what one member tells when it joins the group, and what the leader plans with.
type Member struct {
	// ID is the group's member id. Required, unique. It is known to the group and never encoded.
	ID string
	// Node is the member's node. Required. Of two members with one node only the newer incarnation gets tasks.
	Node metadata.NodeID
	// Address is where the node's query service answers, as told to everybody.
	Address string
	// Rack names what fails together. Members without one count as one rack.
	Rack string
	// Incarnation is the start of the node's process.
	Incarnation metadata.Incarnation
	// Draining says that the member wants to hand everything over and leave; see promise 8 in the package's comment.
	Draining bool
	// Lease is how long the member may go on as active once the group has lost it, in whole milliseconds.
	Lease time.Duration
	// Capacity is the member's weight relative to the others. Zero means 1; at most MaxCapacity.
	Capacity int
	// Owned are the active tasks that the member holds and has not given up.
	Owned []metadata.TaskID
	// OwnedGeneration is the generation under which Owned was given (KIP-792).
	OwnedGeneration metadata.Generation
	// Lags has, for each task with any local state (active, standby, warm-up, or only a directory on disk), the sum of
	// its stores' offset lags. A running active says 0. metadata.LagUnknown says that there is state, but nobody knows
	// how far behind; a task without state is absent.
	Lags map[metadata.TaskID]int64
}

// Task is one task of the topology.
type Task struct {
	ID metadata.TaskID
	// Stateful says that the task has stores, so that replicas and lags mean something.
	Stateful bool
}

// The defaults and limits of Options and Member.
const (
	DefaultAcceptableLag = 10_000
	DefaultMaxWarmups    = 2
	MaxCapacity          = 1_000_000
)

// Options are the settings of Plan.
type Options struct {
	// Standbys is the number of standbys of each stateful task, as far as there are nodes. Default 0.
	Standbys int
	// AcceptableLag is the lag in offsets up to which a replica counts as caught up (Kafka Streams'
	// acceptable.recovery.lag). Zero means DefaultAcceptableLag.
	AcceptableLag int64
	// MaxWarmups is how many warm-ups there may be at once in the whole group (Kafka Streams' max.warmup.replicas).
	// Zero means DefaultMaxWarmups.
	MaxWarmups int
}

// Given is what one member gets. Each list is sorted; no task is in two of Active, Standby and Warmup.
type Given struct {
	Active  []metadata.TaskID
	Standby []metadata.TaskID
	Warmup  []metadata.TaskID
	// Awaited are those of Standby and Warmup that have a better use once they have caught up: the member asks for a
	// rebalance when the lag of one of them is within AcceptableLag. (KIP-441 probes by the clock instead.)
	Awaited []metadata.TaskID
}

// Assignment is a plan for one generation.
type Assignment struct {
	// Members has an entry for every member that was planned with, empty for one that gets nothing.
	Members map[string]Given
	// Withheld are the tasks that nobody gets as active in this round because a member that still holds them has to
	// give them up first. That member sees its assignment without them, hands over at a commit and rejoins without
	// owning them (KIP-429); then the next round gives them out.
	Withheld []metadata.TaskID
	// Map is the whole of it by host, for EncodeAssignment.
	Map Map
}

// Map is the whole assignment, host by host (KIP-535's AssignmentInfo). Every member gets all of it.
type Map struct {
	// AcceptableLag is the leader's, so that members whose settings differ agree on when an awaited task is due.
	AcceptableLag int64
	// Hosts are sorted by node; each node is there once, with its newest incarnation.
	Hosts []MapHost
	// Withheld is Assignment.Withheld, sorted.
	Withheld []metadata.TaskID
	// Lost are the processes that the group lost and that may not know yet. Plan leaves it empty: whoever leads knows the
	// clock, see Losses.
	Lost []Lost
}

// MapHost is one node of a Map. Its lists are sorted.
type MapHost struct {
	Node        metadata.NodeID
	Address     string
	Rack        string
	Incarnation metadata.Incarnation
	Active      []metadata.TaskID
	Standby     []metadata.TaskID
	Warmup      []metadata.TaskID
	Awaited     []metadata.TaskID // see Given.Awaited
	Draining    bool
	Lease       time.Duration
}

// Given returns what the process that is this incarnation of the node got: nothing, and false, when the map does not
// know the node or names another incarnation of it, whose tasks are none of this process's.
func (m Map) Given(node metadata.NodeID, incarnation metadata.Incarnation) (Given, bool) {
	for _, h := range m.Hosts {
		if h.Node == node && h.Incarnation == incarnation {
			return Given{Active: h.Active, Standby: h.Standby, Warmup: h.Warmup, Awaited: h.Awaited}, true
		}
	}
	return Given{}, false
}
