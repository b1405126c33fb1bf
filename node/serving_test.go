package node

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/iqgate/iqgate/group"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/store"
)

// What comes with a read held before the look as well as after it, whatever happens meanwhile.
func TestReadTellsWhatHeldThroughout(t *testing.T) {
	t.Parallel()
	const lease = time.Hour
	old, newer := metadata.Position{{Topic: "in"}: 3}, metadata.Position{{Topic: "in"}: 9}
	active := standing{metadata.RoleActive, metadata.StateRunning, 1}
	restoring := standing{metadata.RoleActive, metadata.StateRestoring, 1}
	for name, test := range map[string]struct {
		before standing
		began  time.Duration // how long ago the lease was renewed
		look   func(*replica)
		want   metadata.Replica // its Lag is the offsets alone
	}{
		"nothing":        {active, 0, func(*replica) {}, metadata.Replica{State: metadata.StateRunning, LeaseValid: true, Input: old}},
		"promoted":       {restoring, 0, func(r *replica) { r.now.Store(&active) }, metadata.Replica{State: metadata.StateRestoring, LeaseValid: true, Lag: metadata.LagInfo{Offsets: 3}}},
		"demoted":        {active, 0, func(r *replica) { r.now.Store(&restoring) }, metadata.Replica{State: metadata.StateRestoring, LeaseValid: true, Lag: metadata.LagInfo{Offsets: 3}}},
		"lease renewed":  {active, 2 * lease, func(r *replica) { r.set.lease.Renew(time.Now()) }, metadata.Replica{State: metadata.StateRunning, Input: old}},
		"commit applied": {active, 0, func(r *replica) { r.input.Store(&newer) }, metadata.Replica{State: metadata.StateRunning, LeaseValid: true, Input: old}},
	} {
		now := time.Now()
		held := group.NewLease(lease, now.Add(-10*lease))
		held.Renew(now.Add(-test.began))
		r := newTestReplica(now, held)
		kv, err := store.Open("", store.ID{Store: "s"}, store.Options{InMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = kv.Close() })
		r.kv.Store(kv)
		r.now.Store(&test.before)
		r.input.Store(&old)
		r.addSample(sample{At: now, End: 10})
		got, err := r.Read(func(seen *store.KV) (store.Checkpoint, error) {
			if seen != kv {
				t.Errorf("%s: another store", name)
			}
			test.look(r)
			return store.Checkpoint{Position: 7}, nil
		})
		if err != nil || got.Role != metadata.RoleActive || got.State != test.want.State || got.LeaseValid != test.want.LeaseValid ||
			got.Lag.Position != 7 || got.Lag.Offsets != test.want.Lag.Offsets || !maps.Equal(got.Input, test.want.Input) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
}

// A store that is not open is not looked at.
func TestReadOfNoStoreIsClosed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newTestReplica(now, group.NewLease(time.Second, now))
	got, err := r.Read(func(*store.KV) (store.Checkpoint, error) {
		t.Error("there is nothing to look at")
		return store.Checkpoint{}, nil
	})
	if !errors.Is(err, store.ErrClosed) || got.Input != nil || got.State != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
