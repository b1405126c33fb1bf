package node

import (
	"math"
	"time"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
)

// Tally is the node as it is at now, with all that it counts. Any goroutine may call it at any time; it takes some
// microseconds for each replica.
func (n *Node) Tally(now time.Time) tally.Node {
	t := tally.Node{
		ID: n.cfg.NodeID, Application: n.application, Address: n.address, Rack: n.cfg.Rack, Draining: n.drain.begun(),
		DiskFree: -1, DiskSize: -1, Requests: n.requests, Reads: n.reads, Work: n.cfg.work,
	}
	t.InFlight, t.Waiting, t.Scans, t.Watches = n.serving.Load()
	if free, err := store.FreeBytes(n.cfg.StateDir); err == nil {
		t.DiskFree = free
	}
	if size, err := store.SizeBytes(n.cfg.StateDir); err == nil && size < math.MaxInt64/2 { // else not known here
		t.DiskSize = size
	}
	if at := n.sampled.Load(); at != nil {
		t.Sampled = *at
	}
	up := n.up.Load()
	if up == nil {
		return t
	}
	t.Up, t.Incarnation = true, n.incarnation
	_, _, member := up.member.Current()
	if hosts := up.hosts.Load(); hosts != nil {
		t.Joined, t.Generation = member, hosts.Generation
	}
	if end := up.replicas.lease.End(); !end.IsZero() {
		t.LeaseLeft = max(0, end.Sub(now))
	}
	t.Tasks = len(*up.worker.owned.Load())
	t.Dropped, t.Misplaced = up.tasks.met.dropped(), up.tasks.met.misplaced()
	for _, r := range up.replicas.list() {
		t.Replicas = append(t.Replicas, r.tally(now))
	}
	return t
}

// tally is the replica as a scrape tells it.
func (r *replica) tally(now time.Time) tally.Replica {
	t := tally.Replica{Replica: r.Report(now), Assigned: r.released.Load() == 0}
	done := r.caughtUp.Load() || t.State == metadata.StateRunning // an active runs before its tail has heard of the end
	t.Restore = tally.Restore{Done: done, From: unknownOffset, At: t.Lag.Position, End: r.restoreEnd.Load()}
	if t.Restore.End == unknownOffset {
		t.Restore.End = t.Lag.End
	}
	if begun := r.restoring.Load(); begun != nil {
		t.Restore.Began, t.Restore.From = begun.at, begun.position
	}
	kv := r.kv.Load()
	if kv == nil {
		return t
	}
	if sizes, err := kv.Sizes(); err == nil {
		t.Open, t.Tables, t.TableBytes, t.ValueBytes = true, sizes.Tables, sizes.TableBytes, sizes.ValueBytes
	}
	return t
}
