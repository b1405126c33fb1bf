package node

import (
	"log/slog"
	"testing"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// A value that was read before a replica was promoted may be older than what the active has, so it is judged as what the
// replica was.
func TestReadThatBeganBeforeThePromotionIsNoneOfTheActive(t *testing.T) {
	t.Parallel()
	active := standing{metadata.RoleActive, metadata.StateRunning, 8}
	restoring := standing{metadata.RoleActive, metadata.StateRestoring, 8}
	standby := standing{metadata.RoleStandby, metadata.StateRunning, 7}
	for _, test := range []struct{ before, after, want standing }{
		{active, active, active},
		{restoring, active, restoring},
		{standby, active, standby},
		{active, restoring, restoring},
		{active, standby, standby},
		{standby, restoring, restoring},
	} {
		if got := throughout(test.before, test.after); got != test.want {
			t.Errorf("from %+v to %+v: judged as %+v, want %+v", test.before, test.after, got, test.want)
		}
	}
}

// A commit that was in flight when the value was read counts for its lag, even when it has landed since.
func TestCommitInFlightAtTheReadCountsAfterItHasLanded(t *testing.T) {
	t.Parallel()
	base := time.Now()
	now := base.Add(10 * time.Second)
	held := newLease(time.Second, base)
	held.renew(now)
	r := newReplica(&replicaSet{lease: held, base: base, log: slog.New(slog.DiscardHandler), news: newNews(), roles: newNews()},
		metadata.Partition{Store: "s"}, metadata.TaskID{}, metadata.TopicPartition{}, "")
	active := standing{metadata.RoleActive, metadata.StateRunning, 1}
	if got := r.lag(active, 5, nil, now).Time; got != 0 {
		t.Errorf("time lag without a flight is %s", got)
	}
	flying := &flight{since: now.Add(-3 * time.Second), done: make(chan struct{})}
	r.flight.Store(flying)
	if got := r.lag(active, 5, nil, now).Time; got != 3*time.Second {
		t.Errorf("time lag during the flight is %s", got)
	}
	r.land()
	if got := r.lag(active, 5, flying, now).Time; got != 3*time.Second {
		t.Errorf("time lag of what was read during the flight is %s", got)
	}
}
