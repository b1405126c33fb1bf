package tally

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// A ByName counts by one or two names, of which there are few: topics, stores, reasons. The zero value is ready.
type ByName struct {
	mu     sync.Mutex
	counts map[[2]string]int64
}

// Add counts n more.
func (c *ByName) Add(n int64, name ...string) {
	if n == 0 {
		return
	}
	var key [2]string
	copy(key[:], name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[[2]string]int64)
	}
	c.counts[key] += n
}

// Load are the counts as they are now.
func (c *ByName) Load() map[[2]string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// Where the records that are applied to a store come from.
const (
	FromTask      = "task"      // of this node, which is the store's active
	FromChangelog = "changelog" // which another node writes
)

// Work counts what a node does besides answering. NewWork makes one.
type Work struct {
	// Commits are the transactions that Kafka has committed, with those of input offsets alone, and CommitTook how long each took
	// with applying it. CommitFailures are tries that ended otherwise or with an unknown outcome.
	Commits, CommitFailures atomic.Int64
	CommitTook              *Histogram
	// Aborts is how often the tasks have begun again from what is committed.
	Aborts atomic.Int64
	// TaskFailures is how often a task stopped at a record that it could not process.
	TaskFailures atomic.Int64
	// PromotionTook is how long tasks took from their assignment until they ran, once for each.
	PromotionTook *Histogram
	// RecordsIn are the processed records of committed transactions, by source topic, and RecordsOut what they sent to sinks, by
	// topic. Skipped are records that tasks could not use, by reason.
	RecordsIn, RecordsOut, Skipped ByName
	// Applied are the changelog records that were applied, by store and where they come from.
	Applied ByName
	// Rebuilds is how often a store was dropped and rebuilt, by store.
	Rebuilds ByName
	// Copies are the stores that were copied from another node, CopyFailures the tries that failed, and CopiedBytes how much.
	Copies, CopyFailures, CopiedBytes atomic.Int64
	// SampleFailures is how often the ends of changelogs could not be learned.
	SampleFailures atomic.Int64

	Group Group
	Kafka Kafka
}

// NewWork makes counters that are 0.
func NewWork() *Work {
	return &Work{CommitTook: newHistogram(workBounds), PromotionTook: newHistogram(workBounds), Group: Group{JoinTook: newHistogram(workBounds)}}
}

// Group counts what a node meets in its consumer group.
type Group struct {
	// Rebalances are the assignments that the node has got, and JoinTook how long each took from the JoinGroup on.
	JoinTook *Histogram
	// Losses is how often the group went on without the node.
	Losses atomic.Int64
	// HeartbeatFailures are heartbeats that did not come back well, but for those that tell of a rebalance.
	HeartbeatFailures atomic.Int64
}

// Joined counts an assignment. It may be called on nil, and does nothing then.
func (g *Group) Joined(took time.Duration) {
	if g != nil {
		g.JoinTook.Observe(took)
	}
}

// Lost counts a membership that was lost. It may be called on nil, and does nothing then.
func (g *Group) Lost() {
	if g != nil {
		g.Losses.Add(1)
	}
}

// Missed counts a heartbeat that did not come back well. It may be called on nil, and does nothing then.
func (g *Group) Missed() {
	if g != nil {
		g.HeartbeatFailures.Add(1)
	}
}

// Kafka counts what goes over the connections to brokers.
type Kafka struct {
	// Connects are the connections that were made, ConnectFailures those that could not be.
	Connects, ConnectFailures atomic.Int64
	// Sent and Received are bytes.
	Sent, Received atomic.Int64
	// RequestFailures are requests that got no answer.
	RequestFailures atomic.Int64
	// Throttled is how long brokers have asked to wait, in nanoseconds.
	Throttled atomic.Int64
}
