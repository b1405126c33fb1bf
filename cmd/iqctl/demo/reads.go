package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/cmd/internal/cluster"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// How a policy is read.
const (
	readEvery      = 20 * time.Millisecond
	readTimeout    = 2 * time.Second
	maxReadsAtOnce = int(readTimeout/readEvery) + 10
)

// A policy is one way to read, by its name in the report, with its bounds.
type policy struct {
	name         string
	option       client.ReadOption
	maxStaleness time.Duration // negative for none
	maxLag       int64         // negative for none
}

var policies = []policy{
	{"strong", client.Strong(), -1, -1},
	{"active", client.Active(), -1, -1},
	{"any", client.Any(), -1, -1},
	{"max_staleness: 10s", client.MaxStaleness(10 * time.Second), 10 * time.Second, -1},
	{"max_staleness: 500ms", client.MaxStaleness(500 * time.Millisecond), 500 * time.Millisecond, -1},
	{"max_offset_lag: 1000", client.MaxOffsetLag(1000), -1, 1000},
}

// A reader reads by one policy and counts.
type reader struct {
	policy policy
	mu     struct {
		sync.Mutex
		tally tally
	}
}

// at gives the reader's count.
func (d *reader) at(now time.Duration) tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.tally.at(now)
}

// read reads random keys of those fed so far until ctx ends, at a steady pace: a read that takes long delays no other.
func (r *run) read(ctx context.Context, d *reader) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, maxReadsAtOnce)
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		store := storeNames[rand.IntN(len(storeNames))] //nolint:gosec // picks keys, guards nothing
		keys := r.flights.fed(store, int(r.fed.Load()))
		if len(keys) == 0 {
			continue
		}
		key := keys[rand.IntN(len(keys))].key //nolint:gosec // picks keys, guards nothing
		select {
		case slots <- struct{}{}:
			wg.Go(func() {
				r.readOne(ctx, d, store, key)
				<-slots
			})
		default: // all are waiting for an answer
		}
	}
}

func (r *run) readOne(ctx context.Context, d *reader, store, key string) {
	begun := r.now()
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout) // a read that has begun may end
	defer cancel()
	res, err := r.client.Get(rctx, store, []byte(key), d.policy.option)
	now := r.now()
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mu.tally.failure(reasonOf(err), err.Error())
		return
	}
	p := cluster.Partition{Store: store, Number: res.Partition}
	r.known.Store(p, key)
	stale := time.Duration(0)
	within := true
	if res.TimeLag != client.UnknownTimeLag {
		stale = res.TimeLag
	}
	if b := d.policy.maxStaleness; b >= 0 && res.TimeLag > b {
		within = false
	}
	if b := d.policy.maxLag; b >= 0 && res.OffsetLag > b {
		within = false
	}
	d.mu.Lock()
	d.mu.tally.success(now, res.Role, stale, within)
	d.mu.Unlock()
	if res.Role == iqv1.Role_ROLE_STANDBY {
		r.standbyRead(p, begun, now)
	}
}

// reasonOf is a failure in one word.
func reasonOf(err error) string {
	if reason := iqerr.ReasonOf(err); reason != iqv1.Reason_REASON_UNSPECIFIED {
		return iqerr.Name(reason)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "TIMEOUT"
	}
	return "UNREACHABLE"
}

// A stamp is a moment of the run that may not have come; it is set once.
type stamp struct{ at atomic.Int64 } // 0 until then

// set says whether this call has set it.
func (s *stamp) set(now time.Duration) bool { return s.at.CompareAndSwap(0, int64(max(now, 1))) }

// get gives the moment, and whether it has come.
func (s *stamp) get() (time.Duration, bool) {
	v := s.at.Load()
	return time.Duration(v), v != 0
}
