//go:build synctests

package integration

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iqgate/iqgate/integration/history"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	simDefaultSeeds = 20 // that a plain go test runs; make sim N=100 runs more
	simMaxReported  = 10 // violations of one seed
	simWatchers     = 2
)

// A cluster of three nodes and two routers is disturbed in every way that a seed can choose, while it is written to and
// read with every policy. Whatever happens, each read is as fresh as it was asked to be, nothing is lost or counted twice,
// and once the faults are over everything comes right by itself.
//
// IQGATE_SIM_SEED is the first seed and IQGATE_SIM_SEEDS how many to run; the former alone runs one, and with -v it shows
// everybody's log. `make sim` runs this test in several processes.
func TestSimRandomFaults(t *testing.T) {
	first, seeds := simSeeds(t)
	gc := debug.SetGCPercent(400) // a run is short, and its garbage small
	t.Cleanup(func() { debug.SetGCPercent(gc) })
	for seed := first; seed < first+seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { simulate(t, planOf(seed)) })
			if t.Failed() {
				t.Logf("run it again:\nIQGATE_SIM_SEED=%d go test -tags synctests -count=1 -run TestSimRandomFaults ./integration", seed)
			}
		})
	}
}

// simSeeds are the seeds to run.
func simSeeds(t *testing.T) (first, seeds uint64) {
	t.Helper()
	first, seeds = 1, simDefaultSeeds
	for _, v := range []struct {
		name string
		to   *uint64
	}{{"IQGATE_SIM_SEED", &first}, {"IQGATE_SIM_SEEDS", &seeds}} {
		s := os.Getenv(v.name)
		if s == "" {
			continue
		}
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil || n == 0 && v.to == &seeds {
			t.Fatalf("%s is %q, want a positive number", v.name, s)
		}
		*v.to = n
		if v.to == &first {
			seeds = 1
		}
	}
	return first, seeds
}

func simulate(t *testing.T, p simPlan) {
	t.Helper()
	log := verboseLog(t)
	if os.Getenv("IQGATE_SIM_SEED") == "" || os.Getenv("IQGATE_SIM_SEEDS") != "" {
		log = nil // of many seeds at a time nobody could read it
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
	defer cancel()
	writing, stopWriting := context.WithCancel(ctx)
	var traffic, writer sync.WaitGroup
	defer traffic.Wait()
	defer cancel()
	writer.Go(func() { w.write(writing) })
	traffic.Go(func() { w.observe(ctx) })
	traffic.Go(func() { w.look(ctx) })
	reading, stopReading := context.WithCancel(ctx)
	var readers sync.WaitGroup
	for i := range uint64(simReaders) {
		readers.Go(func() { w.read(reading, i) })
	}
	readers.Go(func() { w.readRanges(reading) })
	readers.Go(func() { w.readSession(reading) })
	var watchers []*simWatcher
	for i := range uint64(simWatchers) {
		s := w.newWatcher(i)
		watchers = append(watchers, s)
		traffic.Go(func() { s.run(ctx) })
	}
	w.playEvents()
	if left := simWarmUp + simFaults - w.now(); left > 0 {
		time.Sleep(left)
	}
	stopWriting()
	writer.Wait()
	settled, err := w.converge()
	time.Sleep(2 * simLookEvery) // the observer may be that late
	stopReading()
	readers.Wait()
	if err == nil {
		err = w.watched(watchers)
	}
	cancel()
	traffic.Wait()
	if err != nil {
		t.Errorf("not right at %s, long after the last fault: %v", w.now(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, err := range w.mu.errs {
		t.Error(err)
	}
	w.mu.h.Settled = settled
	violations := w.mu.h.Check()
	for i, v := range violations {
		if i == simMaxReported {
			t.Errorf("and %d more", len(violations)-i)
			break
		}
		t.Error(v)
	}
	if t.Failed() {
		t.Log(p)
	}
	served := 0
	for _, r := range w.mu.h.Reads {
		if r.Failed == "" {
			served++
		}
	}
	if served < len(w.mu.h.Reads)/4 || len(w.mu.h.Commits) == 0 {
		t.Errorf("only %d of %d reads were answered, %d commits: the run shows nothing", served, len(w.mu.h.Reads), len(w.mu.h.Commits))
	}
	t.Logf("%d records, %d commits, %d reads, %d answered, %d looks, %s in all",
		len(w.mu.h.Inputs), len(w.mu.h.Commits), len(w.mu.h.Reads), served, len(w.mu.h.Looks), w.now())
}

// converge waits until every store has its right last values, every replica has caught up, and each partition has its
// active and its standby. It returns the replicas as they are then.
func (w *simWorld) converge() ([]history.Observation, error) {
	limit := w.now() + simHeal
	for {
		settled, err := w.converged()
		if err == nil || w.now() > limit {
			w.mu.Lock()
			w.mu.h.Final = w.wanted()
			w.mu.Unlock()
			return settled, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (w *simWorld) converged() ([]history.Observation, error) {
	w.mu.Lock()
	wanted := w.wanted()
	w.mu.Unlock()
	for _, want := range wanted {
		if !slices.Contains(w.plan.plain(), want.Store) {
			continue
		}
		for _, router := range simRouters {
			read := history.Read{Partition: want.Partition, Key: want.Key, Router: router}
			read.Policy = history.Policy{Mode: history.Strong, MaxStaleness: history.Unknown, MaxOffsetLag: history.Unknown}
			got := w.readOnce(w.ctx, read, 0, 0)
			if got.Failed != "" || got.Found == want.Deleted || got.Value != want.Value {
				return nil, fmt.Errorf("want %q (deleted %v): %s", want.Value, want.Deleted, got.String())
			}
		}
	}
	for _, store := range w.plan.stores() {
		for _, router := range simRouters {
			if err := w.scanned(store, router, wanted); err != nil {
				return nil, err
			}
		}
	}
	if err := w.ended(); err != nil {
		return nil, err
	}
	var settled []history.Observation
	actives, standbys := make(map[history.Partition]int), make(map[history.Partition]int)
	for _, id := range simNodes {
		for _, o := range w.lookAt(w.ctx, id) {
			if r := o.Replica; !r.Running || r.OffsetLag != 0 {
				return nil, fmt.Errorf("%s", o)
			}
			settled = append(settled, o)
			if o.Replica.Active {
				actives[o.Partition]++
			} else {
				standbys[o.Partition]++
			}
		}
	}
	for _, store := range w.plan.stores() {
		for i := range w.plan.partitions {
			p := history.Partition{Store: store, Partition: i}
			if actives[p] != 1 || standbys[p] < 1 {
				return nil, fmt.Errorf("%s has %d actives and %d standbys", p, actives[p], standbys[p])
			}
		}
	}
	return settled, nil
}

// ended is the error of a node that has ended by itself.
func (w *simWorld) ended() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, n := range w.mu.nodes {
		if n.node == nil {
			continue
		}
		select {
		case <-n.node.Done():
			return fmt.Errorf("node %s has ended by itself: %w", id, n.node.Err())
		default:
		}
	}
	return nil
}

// scanned compares a strong scan of a store with what it must hold.
func (w *simWorld) scanned(store, router string, wanted []history.Commit) error {
	read := history.Read{Partition: history.Partition{Store: store, Partition: history.Unknown}, Router: router}
	read.Policy = history.Policy{Mode: history.Strong, MaxStaleness: history.Unknown, MaxOffsetLag: history.Unknown}
	req := &iqv1.ScanRequest{Selection: &iqv1.Selection{Store: store}, Policy: policyProto(read.Policy, 0)}
	reads := w.scan(w.ctx, read, history.Range{}, req, make(map[int32]history.Entry), 0)
	want := make(map[history.Row]bool)
	for _, c := range wanted {
		if c.Store == store && !c.Deleted {
			want[history.Row{Entry: c.Entry, Value: c.Value}] = true
		}
	}
	if store == simVersions { // the latest of each key
		latest := make(map[string]history.Commit)
		for _, c := range wanted {
			if old, ok := latest[c.Key]; c.Store == store && (!ok || old.Start < c.Start) {
				latest[c.Key] = c
			}
		}
		clear(want)
		for _, c := range latest {
			if !c.Deleted {
				want[history.Row{Entry: c.Entry, Value: c.Value}] = true
			}
		}
	}
	told := int32(0)
	for _, r := range reads {
		if r.Failed != "" {
			return fmt.Errorf("scan: %s", r.String())
		}
		told++
		for _, row := range r.Rows {
			if !want[row] && (store == simLatest || store == simCounts || !w.plan.shortKept) {
				return fmt.Errorf("%s: row %s %q is not wanted", r.String(), row.Entry, row.Value)
			}
			delete(want, row)
		}
	}
	if told != w.plan.partitions {
		return fmt.Errorf("scan of %s through %s told of %d partitions", store, router, told)
	}
	for row := range want {
		return fmt.Errorf("scan of %s through %s: %s %q is missing", store, router, row.Entry, row.Value)
	}
	return nil
}

// watched waits until the watches have told every change.
func (w *simWorld) watched(watchers []*simWatcher) (err error) {
	for end := w.now() + watchSettle; w.now() < end; time.Sleep(100 * time.Millisecond) {
		w.mu.Lock()
		err = nil
		for _, s := range watchers {
			if e := s.check(); e != nil && err == nil {
				err = fmt.Errorf("%s: %w", s, e)
			}
		}
		w.mu.Unlock()
		if err == nil {
			return nil
		}
	}
	return err
}
