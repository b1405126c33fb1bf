//go:build synctests

package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/integration/history"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	watchDefaultSeeds = 4
	watchersOfSeed    = 8
	watchSettle       = 20 * time.Second // within which every watch must have told the last change
)

// A change is an entry of a changelog: a value, or a removal.
type watchedChange struct {
	key, value string
	removed    bool
}

func (c watchedChange) String() string {
	if c.removed {
		return c.key + " removed"
	}
	return c.key + "=" + c.value
}

// A simWatcher watches some keys of one partition, now at this node and now at that, and goes on from the last position
// that it was told. What came after that position in a stream that broke it forgets.
type simWatcher struct {
	w *simWorld
	r *rand.Rand
	history.Partition
	key, prefix string // of both at most one
	policy      *iqv1.ReadPolicy
	changesOnly bool

	mu struct {
		sync.Mutex
		begun  bool
		from   int64 // the position at which the changes begin
		at     int64 // the last one told
		rows   []watchedChange
		events []watchedChange
		ends   map[string]int // by reason
	}
}

func (w *simWorld) newWatcher(i uint64) *simWatcher {
	r := simRand(w.plan.seed, 100+i)
	s := &simWatcher{w: w, r: r, changesOnly: r.IntN(4) == 0}
	s.mu.ends = make(map[string]int)
	s.Store, s.Partition.Partition = pick(r, w.plan.plain()), r.Int32N(w.plan.partitions)
	switch r.IntN(4) {
	case 0:
		s.key = w.plan.keyOf(s.Store, r.IntN(100))
		s.Partition.Partition = w.partitionOf(s.key)
	case 1:
		s.prefix = pick(r, []string{"k1", "k", "g", "k2"})
	}
	switch r.IntN(4) {
	case 0:
		s.policy = &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ACTIVE, Wait: durationpb.New(300 * time.Millisecond)}
	case 1:
		s.policy = maxStaleness(2 * time.Second)
	default:
		s.policy = anyReplica()
	}
	return s
}

func (s *simWatcher) String() string {
	return fmt.Sprintf("watch of %s/%d key=%q prefix=%q by %v, changes only: %v", s.Store, s.Partition.Partition, s.key, s.prefix, s.policy, s.changesOnly)
}

func (s *simWatcher) selects(key string) bool {
	return strings.HasPrefix(key, s.prefix) && (s.key == "" || s.key == key)
}

// run watches until ctx ends.
func (s *simWatcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		id := pick(s.r, simNodes)
		s.w.mu.Lock()
		node := s.w.mu.nodes[id].node
		s.w.mu.Unlock()
		if node == nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		err := s.once(ctx, node.Query(), between(s.r, 20*time.Millisecond, 3*time.Second))
		reason := iqerr.Name(iqerr.ReasonOf(iqerr.FromStatus(err)))
		s.mu.Lock()
		s.mu.ends[reason]++
		s.mu.Unlock()
		switch iqerr.ReasonOf(iqerr.FromStatus(err)) { //nolint:exhaustive // after any other the watch goes on elsewhere
		case iqv1.Reason_REASON_PAGE_LOST, iqv1.Reason_REASON_INVALID, iqv1.Reason_REASON_SLOW_READER, iqv1.Reason_REASON_CORRUPT:
			s.w.failed(fmt.Errorf("%s at %s: %w", s, id, err))
			return
		default:
			time.Sleep(between(s.r, 0, 100*time.Millisecond))
		}
	}
}

// once watches at one node for a while.
func (s *simWatcher) once(ctx context.Context, q iqv1.QueryServiceClient, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sel := &iqv1.Selection{Store: s.Store, Partitions: []int32{s.Partition.Partition}}
	switch {
	case s.key != "":
		sel.Keys = &iqv1.Selection_Key{Key: []byte(s.key)}
	case s.prefix != "":
		sel.Keys = &iqv1.Selection_Prefix{Prefix: []byte(s.prefix)}
	}
	req := &iqv1.WatchRequest{Selection: sel, Policy: s.policy, ChangesOnly: s.changesOnly}
	s.mu.Lock()
	if s.mu.begun {
		req.From = []*iqv1.PartitionPosition{{Partition: s.Partition.Partition, Position: s.mu.at}}
	}
	s.mu.Unlock()
	stream, err := q.Watch(ctx, req)
	if err != nil {
		return err
	}
	var pending []watchedChange
	told := false
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, r := range m.GetReads() {
			told = told || r.GetPartition() == s.Partition.Partition
		}
		if !told {
			return fmt.Errorf("a message before any read: %v", m)
		}
		for _, e := range m.GetEvents() {
			if e.GetRow().GetPartition() != s.Partition.Partition {
				return fmt.Errorf("an event of another partition: %v", e)
			}
			pending = append(pending, watchedChange{string(e.GetRow().GetKey()), simValue(s.Store, e.GetRow().GetValue()), e.GetRemoved()})
		}
		for _, at := range m.GetPositions() {
			s.take(at.GetPosition(), len(m.GetCurrent()) > 0, pending)
			pending = nil
		}
	}
}

// take keeps what was told up to a position.
func (s *simWatcher) take(at int64, current bool, told []watchedChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.mu.begun && !current:
		s.w.failed(fmt.Errorf("%s: position %d before all that was there", s, at))
	case !s.mu.begun:
		s.mu.begun, s.mu.from, s.mu.rows = true, at, told
	case at < s.mu.at:
		s.w.failed(fmt.Errorf("%s: position %d after %d", s, at, s.mu.at))
	default:
		s.mu.events = append(s.mu.events, told...)
	}
	s.mu.at = at
}

// check compares what was told with the changelog. The world's lock is held.
func (s *simWatcher) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.begun {
		return errors.New("it has not begun")
	}
	there := make(map[string]watchedChange)
	var want []watchedChange
	for _, c := range s.w.mu.h.Commits {
		if c.Partition != s.Partition || !s.selects(c.Key) {
			continue
		}
		change := watchedChange{c.Key, c.Value, c.Deleted}
		switch {
		case c.Offset >= s.mu.from:
			want = append(want, change)
		case c.Deleted:
			delete(there, c.Key)
		default:
			there[c.Key] = change
		}
	}
	var rows []watchedChange
	if !s.changesOnly {
		for _, key := range slices.Sorted(maps.Keys(there)) {
			rows = append(rows, there[key])
		}
	}
	if !slices.Equal(rows, s.mu.rows) {
		return fmt.Errorf("at %d the store has %v, told were %v", s.mu.from, rows, s.mu.rows)
	}
	for i, c := range want {
		if i == len(s.mu.events) {
			return fmt.Errorf("%d of %d changes since %d were told (up to %d), missing is %v", i, len(want), s.mu.from, s.mu.at, c)
		}
		if s.mu.events[i] != c {
			return fmt.Errorf("change %d of %d since %d is %v, told was %v", i, len(want), s.mu.from, c, s.mu.events[i])
		}
	}
	if len(s.mu.events) > len(want) {
		return fmt.Errorf("%d changes were told, there are %d; the first one too many is %v", len(s.mu.events), len(want), s.mu.events[len(want)])
	}
	return s.checkFold()
}

// checkFold compares what all of it adds up to with what the store must hold. Both locks are held.
func (s *simWatcher) checkFold() error {
	if s.changesOnly {
		return nil
	}
	folded := make(map[string]string)
	for _, c := range slices.Concat(s.mu.rows, s.mu.events) {
		if delete(folded, c.key); !c.removed {
			folded[c.key] = c.value
		}
	}
	want := make(map[string]string)
	for _, c := range s.w.wanted() {
		if c.Store == s.Store && s.w.partitionOf(c.Key) == s.Partition.Partition && s.selects(c.Key) && !c.Deleted {
			want[c.Key] = c.Value
		}
	}
	if !maps.Equal(folded, want) {
		return fmt.Errorf("what was told adds up to %v, the store holds %v", folded, want)
	}
	return nil
}

// Watches at actives and standbys, broken off again and again and gone on with at another node while nodes die, restart
// and hand their tasks over, tell every committed change of their keys exactly once and in the order of the changelog:
// also each change of a batch that a standby applied as one.
func TestWatchTellsEveryCommittedChangeOnceWhateverFails(t *testing.T) {
	first, seeds := uint64(1), uint64(watchDefaultSeeds)
	if s := os.Getenv("IQGATE_SIM_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("IQGATE_SIM_SEED is %q, want a number", s)
		}
		first, seeds = n, 1
	}
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { simulateWatches(t, planOf(seed)) })
			if t.Failed() {
				t.Logf("run it again:\nIQGATE_SIM_SEED=%d go test -tags synctests -count=1 -run TestWatchTellsEvery ./integration", seed)
			}
		})
	}
}

func simulateWatches(t *testing.T, p simPlan) {
	t.Helper()
	log := verboseLog(t)
	if os.Getenv("IQGATE_SIM_SEED") == "" {
		log = nil
	}
	w := newSimWorld(t, p, log)
	defer w.Close()
	defer w.cl.Close()
	for _, name := range simRouters {
		w.startRouter(name)
	}
	for _, id := range simNodes {
		w.startNode(id, nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	writing, stopWriting := context.WithCancel(ctx)
	var others, writer sync.WaitGroup
	defer others.Wait()
	defer cancel()
	writer.Go(func() { w.write(writing) })
	others.Go(func() { w.observe(ctx) })
	var watchers []*simWatcher
	for i := range uint64(watchersOfSeed) {
		s := w.newWatcher(i)
		watchers = append(watchers, s)
		others.Go(func() { s.run(ctx) })
	}
	w.playEvents()
	stopWriting()
	writer.Wait()
	if _, err := w.converge(); err != nil {
		t.Fatalf("not right within %s after the last fault: %v", simHeal, err)
	}
	var err error
	for end := w.now() + watchSettle; w.now() < end; time.Sleep(100 * time.Millisecond) {
		w.mu.Lock()
		err = nil
		for _, s := range watchers {
			if e := s.check(); e != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", s, e))
			}
		}
		err = errors.Join(err, errors.Join(w.mu.errs...))
		w.mu.Unlock()
		if err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, p)
	}
	events, ends := 0, make(map[string]int)
	for _, s := range watchers {
		events += len(s.mu.events)
		for reason, n := range s.mu.ends {
			ends[reason] += n
		}
	}
	if events == 0 {
		t.Error("no change was told: the run shows nothing")
	}
	t.Logf("%d commits, %d changes told, watches ended by %v", len(w.mu.h.Commits), events, ends)
}
