package router

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/routing"
)

const (
	// hedgeAtMost is the longest that a hedged read waits for its first replica before it asks a second.
	hedgeAtMost = 50 * time.Millisecond
	// latencySamples is how many reads the p99 is taken of, and latencyRefresh after how many it is taken anew.
	latencySamples, latencyRefresh = 512, 64
)

// latency is the p99 of the newest reads. The zero value knows none.
type latency struct {
	p99  atomic.Int64 // nanoseconds; 0 while unknown
	ring struct {
		sync.Mutex
		samples [latencySamples]time.Duration
		count   int
	}
}

// add counts one read.
func (l *latency) add(d time.Duration) {
	l.ring.Lock()
	defer l.ring.Unlock()
	l.ring.samples[l.ring.count%latencySamples] = d
	l.ring.count++
	if l.ring.count%latencyRefresh == 0 {
		known := slices.Clone(l.ring.samples[:min(l.ring.count, latencySamples)])
		slices.Sort(known)
		l.p99.Store(int64(known[len(known)*99/100]))
	}
}

// hedgeAfter is how long a read waits before it asks a second replica.
func (l *latency) hedgeAfter() time.Duration {
	if p99 := time.Duration(l.p99.Load()); p99 > 0 {
		return min(p99, hedgeAtMost)
	}
	return hedgeAtMost
}

// mayHedge says whether a second replica may be asked early: when that is switched on, the read tolerates staleness, its
// key is in one partition, and there is a second.
func (d *dispatch) mayHedge() bool {
	return d.router.config.Hedge && !d.read.policy.Mode.ActiveOnly() && len(d.plan.Decisions) == 1 && len(d.plan.Targets) > 1
}

// hedge asks the first replica, and the second as well when the first is slow and the hedge budget allows. The first
// answer wins and the other try is ended. It returns how many were asked; the error is the last of theirs.
func (d *dispatch) hedge(ctx context.Context, first, second routing.Target) (answer, error, int) { //nolint:staticcheck // the count belongs to both outcomes
	type result struct {
		routing.Target
		reply answer
		err   *tryError
	}
	r := d.router
	r.hedges.earn()
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result, 2)
	asked, open := 0, 0
	ask := func(t routing.Target) {
		left := len(d.plan.Targets) - 1 - asked
		asked, open = asked+1, open+1
		go func() {
			reply, err := d.try(ctx, t, left)
			results <- result{t, reply, err}
		}()
	}
	defer func() { // nothing is left running
		cancel()
		for range open {
			<-results
		}
	}()
	start := time.Now()
	slow := time.NewTimer(r.latency.hedgeAfter())
	defer slow.Stop()
	ask(first)
	for {
		select {
		case res := <-results:
			open--
			if res.err == nil {
				r.latency.add(time.Since(start))
				if res.Target == second {
					r.counts.HedgesWon.Add(1)
				}
				return res.reply, nil, asked
			}
			d.note(res.Target, res.err)
			if open == 0 || !iqerr.Retriable(res.err.err) {
				return answer{}, res.err.err, asked
			}
		case <-slow.C:
			if r.hedges.spend() {
				ask(second)
			}
		}
	}
}
