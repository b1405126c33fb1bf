package node

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/iqgate/iqgate/group"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
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

func newTestReplica(base time.Time, held *group.Lease) *replica {
	set := &replicaSet{
		lease: held, base: base, log: slog.New(slog.DiscardHandler), news: newNews(), roles: newNews(), wake: make(chan struct{}, 1),
		work: tally.NewWork(),
	}
	return newReplica(set, metadata.Partition{Store: "s"}, metadata.TaskID{}, metadata.TopicPartition{Topic: "app-s-changelog"}, store.Schema{}, "")
}

// The end of a changelog that was made anew lies below the position of the store that followed the old one. That is no lag
// of 0: what the store has is not in the log.
func TestBrokenStoreKnowsNoLag(t *testing.T) {
	t.Parallel()
	base := time.Now()
	r := newTestReplica(base, group.NewLease(time.Second, base))
	standby := standing{metadata.RoleStandby, metadata.StateRunning, 1}
	r.addSample(sample{At: base, End: 5})
	if got := r.lag(standby, 1000, nil, base.Add(time.Second)); got.Offsets != 0 || got.Time != time.Second {
		t.Errorf("%+v", got)
	}
	r.breakDown(&brokenStore{reason: "position 1000 is outside the changelog, which starts at 0 and ends at 5"})
	for _, s := range []standing{*r.now.Load(), standby, {metadata.RoleActive, metadata.StateRunning, 1}} {
		got := r.lag(s, 1000, nil, base.Add(time.Second))
		if got.Offsets != metadata.LagUnknown || got.Time != metadata.LagUnknown {
			t.Errorf("%+v: %+v", s, got)
		}
	}
}

// A fetch brings a batch that cannot be read again and again, at once. The tail asked for it in a hot loop.
func TestUnreadableChangelogIsNotFetchedInAHotLoop(t *testing.T) {
	t.Parallel()
	base := time.Now()
	r := newTestReplica(base, group.NewLease(time.Second, base))
	kv, err := store.Open("", store.ID{Application: "app", Store: "s", Changelog: "app-s-changelog"}, store.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kv.Close() }()
	r.kv.Store(kv)
	r.next.Store(7)
	if _, next, ok := r.At(); next != 7 || !ok {
		t.Fatalf("fetches from %d, %v", next, ok)
	}
	r.Deliver(t.Context(), kafka.Batch{From: 7, Next: 7, End: 9, Err: errors.New("encoded crc 1 does not match calculated crc 2")})
	if _, _, ok := r.At(); ok {
		t.Error("fetched again at once")
	}
	r.set.base = base.Add(-2 * restPause)
	if _, next, ok := r.At(); next != 7 || !ok {
		t.Errorf("fetches from %d, %v after the rest", next, ok)
	}
}

// A commit that was in flight when the value was read counts for its lag, even when it has landed since.
func TestCommitInFlightAtTheReadCountsAfterItHasLanded(t *testing.T) {
	t.Parallel()
	base := time.Now()
	now := base.Add(10 * time.Second)
	held := group.NewLease(time.Second, base)
	held.Renew(now)
	r := newTestReplica(base, held)
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
