package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/tally"
)

func TestWhenANodeIsReady(t *testing.T) {
	t.Parallel()
	now := time.Now()
	replica := func(partition int32, role metadata.Role, state metadata.State, lag int64, edit ...func(*tally.Replica)) tally.Replica {
		r := tally.Replica{
			Replica: metadata.Replica{
				Partition: metadata.Partition{Store: "s", Partition: partition}, Role: role, State: state, Lag: metadata.LagInfo{Offsets: lag, Position: 1000 - lag, End: 1000},
			},
			Assigned: true, Open: true,
			Restore: tally.Restore{Done: state == metadata.StateRunning, Began: now.Add(-10 * time.Second), From: 0, At: 1000 - lag, End: 1000},
		}
		for _, e := range edit {
			e(&r)
		}
		return r
	}
	active, standby := metadata.RoleActive, metadata.RoleStandby
	running, restoring := metadata.StateRunning, metadata.StateRestoring
	released := func(r *tally.Replica) { r.Assigned = false }
	unopened := func(r *tally.Replica) { r.Open, r.Lag.Offsets = false, metadata.LagUnknown }
	joined := tally.Node{Up: true, Joined: true}
	with := func(n tally.Node, replicas ...tally.Replica) tally.Node { n.Replicas = replicas; return n }
	drains := joined
	drains.Draining = true

	// What each choice says: empty for ready, else what it waits for.
	for _, c := range []struct {
		name                       string
		node                       tally.Node
		joined, caughtUp, restored string
	}{
		{"just started", tally.Node{}, "Kafka and the application's topics", "Kafka and the application's topics", "Kafka and the application's topics"},
		{"without an assignment", tally.Node{Up: true}, "an assignment of the group", "an assignment of the group", "an assignment of the group"},
		{"without a replica", joined, "", "", ""},
		{"drains", with(drains, replica(0, active, running, 0)), "nothing: it drains", "nothing: it drains", "nothing: it drains"},
		{"all well", with(joined, replica(0, active, running, 0), replica(1, standby, running, 5)), "", "", ""},
		{"a standby near the end", with(joined, replica(1, standby, restoring, 100)), "", "", "s/1: standby is restoring"},
		{"a standby far from it", with(joined, replica(1, standby, restoring, 101)), "", "s/1: 101 offsets behind, more than 100", "s/1: standby is restoring"},
		{"a store that is not open", with(joined, replica(1, standby, restoring, 0, unopened)), "", "s/1: its store is not open", "s/1: standby is restoring"},
		{"an active that has caught up and does not run yet", with(joined, replica(0, active, restoring, 0)), "", "", "s/0: active is restoring"},
		{"a copy that it need not have any more", with(joined, replica(1, standby, restoring, 900, released)), "", "", ""},
		{"a running standby that has fallen behind", with(joined, replica(1, standby, running, 101)), "", "s/1: 101 offsets behind, more than 100", "s/1: 101 offsets behind, more than 100"},
	} {
		for when, want := range map[ReadyWhen]string{Joined: c.joined, CaughtUp: c.caughtUp, Restored: c.restored} {
			s := NodeStatus(&c.node, when, 100, now)
			if got := strings.Join(s.Waiting, "; "); got != want || s.Ready != (want == "") {
				t.Errorf("%s, %s: ready %t, waits for %q, want %q", c.name, when, s.Ready, got, want)
			}
		}
	}
}

func TestProgressOfARestore(t *testing.T) {
	t.Parallel()
	now := time.Now()
	restore := func(at, end int64) tally.Replica {
		return tally.Replica{Assigned: true, Restore: tally.Restore{Began: now.Add(-10 * time.Second), From: 0, At: at, End: end}}
	}
	done := tally.Replica{Assigned: true, Restore: tally.Restore{Done: true}}
	kept := tally.Replica{Restore: tally.Restore{From: 0, At: 1, End: 1 << 40}}
	for _, c := range []struct {
		name string
		node tally.Node
		want string
	}{
		{"nothing here", tally.Node{}, "0 of 0, 0 passed, 0 left, eta unknown"},
		{"all done", tally.Node{Replicas: []tally.Replica{done, kept}}, "1 of 1, 0 passed, 0 left, eta 0"},
		{"the slowest counts", tally.Node{Replicas: []tally.Replica{done, restore(500, 1000), restore(100, 300)}}, "1 of 3, 600 passed, 700 left, eta 20"},
		{"one that has not begun", tally.Node{Replicas: []tally.Replica{restore(500, 1000), restore(0, 300)}}, "0 of 2, 500 passed, 800 left, eta unknown"},
	} {
		p := NodeStatus(&c.node, Joined, 0, now).Restore
		eta := "unknown"
		if p.ETASeconds != nil {
			eta = fmt.Sprint(*p.ETASeconds)
		}
		if got := fmt.Sprintf("%d of %d, %d passed, %d left, eta %s", p.Restored, p.Replicas, p.PassedOffsets, p.RemainingOffsets, eta); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestStatusNamesABoundedNumberOfReplicas(t *testing.T) {
	t.Parallel()
	n := tally.Node{Up: true, Joined: true}
	for p := range int32(3 * maxWaiting) {
		n.Replicas = append(n.Replicas, tally.Replica{Assigned: true, Replica: metadata.Replica{Partition: metadata.Partition{Store: "s", Partition: p}}})
	}
	if got := len(NodeStatus(&n, CaughtUp, 0, time.Now()).Waiting); got != maxWaiting {
		t.Errorf("%d things to wait for, want %d", got, maxWaiting)
	}
}

func TestWhenARouterIsReady(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		router tally.Router
		want   string
	}{
		{tally.Router{FreshFor: -1}, "the first report of a node"},
		{tally.Router{Ready: true, FreshFor: -1}, "a report: no node is alive"},
		{tally.Router{Ready: true, FreshFor: time.Second}, ""},
		{tally.Router{Ready: true, FreshFor: time.Second, Stopping: true}, "nothing: it stops"},
	} {
		s := RouterStatus(&c.router)
		if got := strings.Join(s.Waiting, "; "); got != c.want || s.Ready != (c.want == "") || s.Restore != nil {
			t.Errorf("%+v: ready %t, waits for %q, want %q", c.router, s.Ready, got, c.want)
		}
	}
}
