package tally

import (
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// Node is what a node is at one moment, with its counters.
type Node struct {
	ID, Application, Address, Rack string
	Incarnation                    metadata.Incarnation

	// Up says that it has found Kafka and its topics.
	Up bool
	// Joined says that it has an assignment and is a member of the group now; Generation is the newest assignment's.
	Joined     bool
	Generation metadata.Generation
	// LeaseLeft is how long it may still answer as active without another heartbeat; 0 when it may not.
	LeaseLeft time.Duration
	Draining  bool
	// Tasks are the active tasks that it has not given up, those that are being restored among them.
	Tasks int

	Replicas []Replica
	// Dropped are the records that a sink's partitioner sent nowhere, Misplaced those that are in another partition than their key's.
	Dropped   []metadata.Dropped
	Misplaced []metadata.Misplaced

	// Sampled is when the ends of the changelogs were asked for last with success; zero before that.
	Sampled time.Time
	// DiskFree and DiskSize are bytes of the file system that holds the state directory; -1 where not known.
	DiskFree, DiskSize int64

	// InFlight are the reads under way, Waiting those of them that asked to wait; Scans and Watches are open.
	InFlight, Waiting, Scans, Watches int64

	Requests *Requests
	Reads    *Reads
	Work     *Work
}

// Replica is a copy of a store partition on a node.
type Replica struct {
	metadata.Replica
	// Assigned is false for a copy that is kept for a while although the node need not have it any more.
	Assigned bool
	Restore  Restore
	// Open says that its store is open. Then TableBytes is what its sorted tables take, ValueBytes what its files of values above
	// about 1 MiB take, and Tables how many of the former there are.
	Open                           bool
	TableBytes, ValueBytes, Tables int64
}

// Restore is how far a replica has come with reading its changelog up.
type Restore struct {
	// Done says that it has caught up with the end that its restore began with.
	Done bool
	// Began is when its store was opened; zero before.
	Began time.Time
	// From is the position then, At the position now, and End the end to reach; -1 where not known.
	From, At, End int64
}

// Remaining is how many changelog offsets are left; -1 when not known.
func (r Restore) Remaining() int64 {
	switch {
	case r.Done:
		return 0
	case r.End < 0 || r.At < 0:
		return -1
	}
	return max(0, r.End-r.At)
}

// Applied is how many changelog offsets were passed since it began.
func (r Restore) Applied() int64 {
	if r.From < 0 || r.At < 0 {
		return 0
	}
	return max(0, r.At-r.From)
}

// ETA is how long the rest takes if it goes on as it went; false when that cannot be told.
func (r Restore) ETA(now time.Time) (time.Duration, bool) {
	left, passed := r.Remaining(), r.Applied()
	if left == 0 {
		return 0, true
	}
	elapsed := now.Sub(r.Began)
	if left < 0 || passed <= 0 || elapsed <= 0 || r.Began.IsZero() {
		return 0, false
	}
	return time.Duration(float64(elapsed) / float64(passed) * float64(left)), true
}
