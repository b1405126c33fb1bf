//go:build synctests

package integration

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iqgate/iqgate/integration/history"
)

const (
	simDefaultSeeds = 20 // that a plain go test runs; make sim N=100 runs more
	simMaxReported  = 10 // violations of one seed
)

// A cluster of three nodes and two routers is disturbed in every way that a seed can choose, while it is written to and
// read with every policy. Whatever happens, each read is as fresh as it was asked to be, nothing is lost or counted twice,
// and once the faults are over everything comes right by itself.
//
// IQGATE_SIM_SEEDS says how many seeds to run, IQGATE_SIM_SEED runs one.
func TestSimRandomFaults(t *testing.T) {
	first, seeds := uint64(1), uint64(simDefaultSeeds)
	if s := os.Getenv("IQGATE_SIM_SEEDS"); s != "" {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil || n == 0 {
			t.Fatalf("IQGATE_SIM_SEEDS is %q, want a positive number", s)
		}
		seeds = n
	}
	if s := os.Getenv("IQGATE_SIM_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("IQGATE_SIM_SEED is %q, want a number", s)
		}
		first, seeds = n, 1
	}
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

func simulate(t *testing.T, p simPlan) {
	t.Helper()
	log := verboseLog(t)
	if os.Getenv("IQGATE_SIM_SEED") == "" {
		log = nil // of many seeds at a time nobody could read it
	}
	w := newSimWorld(t, p, log)
	defer w.Close()
	defer w.cl.Close()
	for _, name := range simRouters {
		w.startRouter(name)
	}
	for _, id := range simNodes {
		w.startNode(id)
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
	cancel()
	traffic.Wait()
	if err != nil {
		t.Errorf("not right within %s after the last fault: %v", simHeal, err)
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
		for _, router := range simRouters {
			read := history.Read{Partition: want.Partition, Key: want.Key, Router: router}
			read.Policy = history.Policy{Mode: history.Strong, MaxStaleness: history.Unknown, MaxOffsetLag: history.Unknown}
			got := w.readOnce(w.ctx, read, 0, 0)
			if got.Failed != "" || got.Found == want.Deleted || got.Value != want.Value {
				return nil, fmt.Errorf("want %q (deleted %v): %s", want.Value, want.Deleted, got.String())
			}
		}
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
	for _, store := range []string{simLatest, simCounts} {
		for i := range w.plan.partitions {
			p := history.Partition{Store: store, Partition: i}
			if actives[p] != 1 || standbys[p] < 1 {
				return nil, fmt.Errorf("%s has %d actives and %d standbys", p, actives[p], standbys[p])
			}
		}
	}
	return settled, nil
}
