package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/group"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
)

// Bounds of the replica set.
const (
	maxOpening     = 4                      // stores opened at a time
	housekeeping   = 250 * time.Millisecond // between two looks for replicas to open or release
	openRetry      = time.Second            // pause after a store could not be opened
	storesDir      = "stores"               // below the state directory: <store>/<partition>
	stateDirectory = 0o750
)

// A replicaSet holds the replicas of this node, opens and rebuilds their stores, and closes those that are not assigned
// any more. Who tells what role they have is the worker.
type replicaSet struct {
	application  string
	cl           *kgo.Client
	catalog      *kafka.Catalog
	lease        *group.Lease
	log          *slog.Logger
	news         *news // any change
	roles        *news // a change of role or state
	storeOptions store.Options
	onStep       func(string) error // Config.Step
	dir          string
	releaseDelay time.Duration
	cleanupDelay time.Duration
	base         time.Time
	tasks        *taskTable
	work         *tally.Work

	wake     chan struct{}
	fetch    func()        // wakes the changelog fetcher
	copies   *bootstrapper // nil where nothing is copied
	fullSaid atomic.Int64  // when the log last said that the disk is full, in nanoseconds of base

	mu struct {
		sync.Mutex
		all map[metadata.Partition]*replica
	}
	// published is all, sorted, for readers that must not wait. It is replaced, never written.
	published atomic.Pointer[replicaView]
}

type replicaView struct {
	byID   map[metadata.Partition]*replica
	sorted []*replica
}

func (s *replicaSet) get(id metadata.Partition) *replica { return s.published.Load().byID[id] }

func (s *replicaSet) list() []*replica { return s.published.Load().sorted }

// publish is called with the lock held.
func (s *replicaSet) publish() {
	v := &replicaView{byID: make(map[metadata.Partition]*replica, len(s.mu.all))}
	for id, r := range s.mu.all {
		v.byID[id] = r
		v.sorted = append(v.sorted, r)
	}
	slices.SortFunc(v.sorted, func(a, b *replica) int { return a.id.Compare(b.id) })
	s.published.Store(v)
}

// cursors are the replicas whose changelog the tail follows.
func (s *replicaSet) cursors() []kafka.Cursor {
	all := s.list()
	cs := make([]kafka.Cursor, 0, len(all))
	for _, r := range all {
		if _, _, ok := r.At(); ok {
			cs = append(cs, r)
		}
	}
	return cs
}

// assign gives each replica of roles its role under a generation and releases the others. An active that was one before
// keeps its state; a new one begins as RESTORING and is promoted by the worker.
func (s *replicaSet) assign(roles map[metadata.Partition]metadata.Role, generation metadata.Generation, now time.Time) {
	s.mu.Lock()
	for id := range roles {
		if s.mu.all[id] == nil {
			s.mu.all[id] = s.tasks.newReplica(s, id)
		}
	}
	s.publish()
	all := s.published.Load().sorted
	s.mu.Unlock()
	for _, r := range all {
		role, assigned := roles[r.id]
		if !assigned {
			role = metadata.RoleStandby
			r.released.CompareAndSwap(0, max(1, int64(now.Sub(s.base))))
		} else {
			r.released.Store(0)
		}
		r.stand(func(st standing) standing {
			if st.role != role {
				st.state = r.stateOutsideTask(role)
			}
			st.role, st.generation = role, generation
			return st
		})
	}
	kafka.Poke(s.wake)
	s.fetch()
	s.copies.look()
}

// stateOutsideTask is the state of a replica that no task writes.
func (r *replica) stateOutsideTask(role metadata.Role) metadata.State {
	switch {
	case r.broken.Load() != nil:
		return metadata.StateSuspended
	case role != metadata.RoleActive && r.caughtUp.Load():
		return metadata.StateRunning
	default:
		return metadata.StateRestoring
	}
}

// run opens, rebuilds, releases and cleans up until ctx ends.
func (s *replicaSet) run(ctx context.Context) error {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	closed := make(map[metadata.Partition]time.Time)
	for {
		s.openMissing(ctx)
		s.releaseUnassigned(ctx, closed)
		s.cleanUp(closed)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// openMissing opens the stores that are not open or have to be rebuilt, some at a time.
func (s *replicaSet) openMissing(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxOpening)
	for _, r := range s.list() {
		if r.kv.Load() != nil && r.broken.Load() == nil || ctx.Err() != nil {
			continue
		}
		if !r.tryTake() {
			continue
		}
		if time.Now().Before(r.openAfter) {
			r.give()
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			defer r.give()
			if err := r.open(ctx); err != nil {
				if ctx.Err() == nil {
					s.log.Warn("cannot open a store", slog.Any("error", err))
				}
				r.openAfter = time.Now().Add(openRetry)
				return
			}
			s.fetch()
		})
	}
}

// releaseUnassigned closes the replicas that have not been assigned for the release delay. Their directories stay: the
// task may come back.
func (s *replicaSet) releaseUnassigned(ctx context.Context, closed map[metadata.Partition]time.Time) {
	now := int64(time.Since(s.base))
	for _, r := range s.list() {
		released := r.released.Load()
		if released == 0 || now-released < int64(s.releaseDelay) || !r.tryTake() {
			continue
		}
		s.mu.Lock()
		again := r.released.Load() == 0 // assigned again meanwhile
		if !again {
			delete(s.mu.all, r.id)
			s.publish()
		}
		s.mu.Unlock()
		if again {
			r.give()
			continue
		}
		closed[r.id] = time.Now()
		if err := r.close(); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot close a store", slog.String("store", r.id.String()), slog.Any("error", err))
		}
	}
}

// cleanUp removes the directories of stores that have been closed for the clean-up delay and did not come back.
func (s *replicaSet) cleanUp(closed map[metadata.Partition]time.Time) {
	for id, since := range closed {
		if s.get(id) != nil {
			delete(closed, id)
			continue
		}
		if time.Since(since) < s.cleanupDelay {
			continue
		}
		delete(closed, id)
		if err := store.Remove(s.storeDir(id)); err != nil {
			s.log.Warn("cannot remove an unused store", slog.String("store", id.String()), slog.Any("error", err))
			continue
		}
		s.log.Info("removed an unused store", slog.String("store", id.String()))
	}
}

// settle waits until the lag of each local store is known, or limit has passed, so that the first assignment knows what is
// here.
func (s *replicaSet) settle(ctx context.Context, limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	for {
		changed := s.news.wait()
		waiting := false
		for _, lag := range s.taskLags(time.Now()) {
			waiting = waiting || lag == metadata.LagUnknown
		}
		if !waiting {
			return
		}
		select {
		case <-changed:
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// closeAll closes every store. Nobody else may write any more; it waits for the tokens.
func (s *replicaSet) closeAll(ctx context.Context) error {
	s.mu.Lock()
	all := s.list()
	s.mu.all = make(map[metadata.Partition]*replica)
	s.mu.Unlock()
	var errs []error
	for _, r := range all {
		if err := r.take(ctx); err != nil {
			errs = append(errs, fmt.Errorf("store %s is still being written", r.id))
			continue
		}
		if err := r.close(); err != nil {
			errs = append(errs, fmt.Errorf("close store %s: %w", r.id, err))
		}
	}
	return errors.Join(errs...)
}

// adoptLocal makes replicas of the stores that an earlier run left, before the group has said anything: they follow and
// serve at once, with their lag, and the leader hears what is here.
func (s *replicaSet) adoptLocal(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.local() {
		r := s.tasks.newReplica(s, id)
		r.released.Store(max(1, int64(now.Sub(s.base))))
		s.mu.all[id] = r
	}
	s.publish()
}

// taskLags are, for each task with local state, the sum of its stores' offset lags; LagUnknown when one is not known.
func (s *replicaSet) taskLags(now time.Time) map[metadata.TaskID]int64 {
	lags := make(map[metadata.TaskID]int64)
	for _, r := range s.list() {
		lag := r.Report(now).Lag.Offsets
		sum, seen := lags[r.task]
		switch {
		case seen && sum == metadata.LagUnknown || lag == metadata.LagUnknown:
			lags[r.task] = metadata.LagUnknown
		default:
			lags[r.task] = sum + lag
		}
	}
	return lags
}

// local are the store partitions that have a directory from an earlier run.
func (s *replicaSet) local() []metadata.Partition {
	var found []metadata.Partition
	for id := range s.tasks.byStore {
		if _, err := os.Stat(s.storeDir(id)); err == nil {
			found = append(found, id)
		}
	}
	slices.SortFunc(found, metadata.Partition.Compare)
	return found
}

func (s *replicaSet) storeDir(id metadata.Partition) string {
	return filepath.Join(s.dir, storesDir, id.Store, strconv.Itoa(int(id.Partition)))
}
