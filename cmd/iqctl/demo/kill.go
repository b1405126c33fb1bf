package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/cmd/internal/cluster"
	"github.com/iqgate/iqgate/cmd/internal/human"
)

const (
	probeEvery = 50 * time.Millisecond // between two strong reads of one partition of the killed node
	backPoll   = 50 * time.Millisecond
)

// killing is what has been seen of the kill. The first four fields are written before killed is set and only read after.
type killing struct {
	node    string
	lost    []cluster.Partition // whose actives the node held
	killed  stamp
	standby stamp // first read of one of lost that a standby answered
	strong  stamp // strong reads of all of lost have been answered
	again   stamp // the node is started again
	caught  stamp // and all its replicas run
}

// killAndRestart kills the busiest node at a third of the time and starts it again at two thirds. It returns when
// the node is back, or ctx ends.
func (r *run) killAndRestart(ctx context.Context) error {
	if r.o.Kill != killNode || !r.sleepUntil(ctx, r.o.killAt()) {
		return nil
	}
	k := &r.kill
	k.node, k.lost = r.view.Load().Busiest()
	victim := r.nodes[k.node]
	if victim == nil {
		return errors.New("no node to kill: none is active of anything")
	}
	victim.kill()
	k.killed.set(r.now())
	r.screen.event(fmt.Sprintf("%s killed (SIGKILL), the active of %d partitions", k.node, len(k.lost)))

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.probeStrong(ctx) })
	g.Go(func() error {
		if !r.sleepUntil(ctx, r.o.restartAt()) {
			return nil
		}
		if _, err := r.startNode(k.node); err != nil {
			return err
		}
		k.again.set(r.now())
		r.screen.event(k.node + " started again")
		return r.awaitBack(ctx)
	})
	return g.Wait()
}

// sleepUntil waits until a moment of the run, and says whether ctx goes on.
func (r *run) sleepUntil(ctx context.Context, at time.Duration) bool {
	t := time.NewTimer(at - r.now())
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// standbyRead hears of each read that a standby answered.
func (r *run) standbyRead(p cluster.Partition, begun, now time.Duration) {
	k := &r.kill
	killed, ok := k.killed.get()
	if !ok || begun < killed || !slices.Contains(k.lost, p) {
		return
	}
	if k.standby.set(now) {
		r.screen.event(fmt.Sprintf("first read of what %s held, from a standby: %s after the kill", k.node, human.Short(now-killed)))
	}
}

// probeStrong reads one key of each lost partition with strong, beside the readers that count, until all are answered.
func (r *run) probeStrong(ctx context.Context) error {
	k := &r.kill
	killed, _ := k.killed.get()
	var wg sync.WaitGroup
	var first stamp
	for _, p := range k.lost {
		key, ok := r.known.Load(p)
		if !ok {
			continue // no key of it has been read, perhaps it has none
		}
		wg.Go(func() {
			if r.probe(ctx, p, key.(string)) && first.set(r.now()) {
				r.screen.event(fmt.Sprintf("first strong read of what %s held: %s after the kill", k.node, human.Short(r.now()-killed)))
			}
		})
	}
	wg.Wait()
	if ctx.Err() == nil && k.strong.set(r.now()) {
		r.screen.event(fmt.Sprintf("strong reads are back for all of it: %s after the kill", human.Short(r.now()-killed)))
	}
	return nil
}

// probe reads until it is answered, and says whether it was before ctx ended.
func (r *run) probe(ctx context.Context, p cluster.Partition, key string) bool {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		rctx, cancel := context.WithTimeout(ctx, readTimeout)
		_, err := r.client.Get(rctx, p.Store, []byte(key), client.Strong())
		cancel()
		if err == nil {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// awaitBack waits until the node reports and all its replicas run.
func (r *run) awaitBack(ctx context.Context) error {
	k := &r.kill
	tick := time.NewTicker(backPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		v, ok := r.view.Load().Find(k.node)
		if ok && v.Alive && !v.Suspect && v.Restoring+v.Paused == 0 && v.Active+v.Standby > 0 && k.caught.set(r.now()) {
			again, _ := k.again.get()
			r.screen.event(fmt.Sprintf("%s is back, %d active and %d standby: %s after its start", k.node, v.Active, v.Standby, human.Short(r.now()-again)))
			return nil
		}
	}
}
