package admin

import (
	"fmt"
	"time"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/tally"
)

// ReadyWhen says when a node is ready.
type ReadyWhen string

// The choices, each with what the one before it asks for.
const (
	// Joined: it is a member of the group, has its assignment, and does not drain.
	Joined ReadyWhen = "joined"
	// CaughtUp: and each replica that it was given is at most as many changelog offsets behind as may become active.
	CaughtUp ReadyWhen = "caught-up"
	// Restored: and each of them has passed the changelog's end that its restore began with, and each active task runs.
	Restored ReadyWhen = "restored"
)

// Status is whether a program is ready.
type Status struct {
	Ready bool `json:"ready"`
	// Waiting is for what, when it is not; at most maxWaiting things.
	Waiting []string `json:"waiting,omitempty"`
	// Restore is how far a node's replicas have come; nil for a router.
	Restore *Progress `json:"restore,omitempty"`
}

// Progress is how far the replicas that a node was given have come with reading their changelogs up.
type Progress struct {
	Replicas int `json:"replicas"`
	// Restored are those that have caught up.
	Restored int `json:"restored"`
	// PassedOffsets are the changelog offsets that the others have passed since they began, and RemainingOffsets those that are left,
	// of the replicas for which they are known.
	PassedOffsets    int64 `json:"passed_offsets"`
	RemainingOffsets int64 `json:"remaining_offsets"`
	// ETASeconds is when the last of them has caught up if each goes on as it went; absent when that cannot be told.
	ETASeconds *float64 `json:"eta_seconds,omitempty"`
}

// maxWaiting bounds the replicas that a status names.
const maxWaiting = 20

// NodeStatus says whether a node is ready. acceptableLag is how many offsets a replica may be behind for CaughtUp.
func NodeStatus(t *tally.Node, when ReadyWhen, acceptableLag int64, now time.Time) Status {
	s := Status{Restore: progressOf(t, now)}
	switch {
	case !t.Up:
		s.wait("Kafka and the application's topics")
	case !t.Joined:
		s.wait("an assignment of the group")
	case t.Draining:
		s.wait("nothing: it drains")
	}
	for i := range t.Replicas {
		if r := &t.Replicas[i]; r.Assigned && when != Joined {
			if why := behind(r, when, acceptableLag); why != "" {
				s.wait(r.String() + ": " + why)
			}
		}
	}
	s.Ready = len(s.Waiting) == 0
	return s
}

// behind says why a replica is not there yet, or nothing.
func behind(r *tally.Replica, when ReadyWhen, acceptableLag int64) string {
	switch {
	case when == Restored && r.State != metadata.StateRunning:
		return fmt.Sprintf("%s is %s", r.Role, r.State)
	case !r.Open:
		return "its store is not open"
	case r.Lag.Offsets == metadata.LagUnknown:
		return "its lag is not known"
	case r.Lag.Offsets > acceptableLag:
		return fmt.Sprintf("%d offsets behind, more than %d", r.Lag.Offsets, acceptableLag)
	}
	return ""
}

func (s *Status) wait(what string) {
	if len(s.Waiting) < maxWaiting {
		s.Waiting = append(s.Waiting, what)
	}
}

// progressOf sums what is left.
func progressOf(t *tally.Node, now time.Time) *Progress {
	p := &Progress{}
	var longest time.Duration
	known := true
	for i := range t.Replicas {
		r := &t.Replicas[i]
		if !r.Assigned {
			continue
		}
		p.Replicas++
		if r.Restore.Done {
			p.Restored++
			continue
		}
		p.PassedOffsets += r.Restore.Applied()
		p.RemainingOffsets += max(0, r.Restore.Remaining())
		left, ok := r.Restore.ETA(now)
		known = known && ok
		longest = max(longest, left)
	}
	if known && p.Replicas > 0 {
		p.ETASeconds = new(longest.Seconds())
	}
	return p
}

// RouterStatus says whether a router is ready: nodes have told of their stores, and one of them still reports.
func RouterStatus(t *tally.Router) Status {
	var s Status
	switch {
	case t.Stopping:
		s.wait("nothing: it stops")
	case !t.Ready:
		s.wait("the first report of a node")
	case t.FreshFor < 0:
		s.wait("a report: no node is alive")
	}
	s.Ready = len(s.Waiting) == 0
	return s
}
