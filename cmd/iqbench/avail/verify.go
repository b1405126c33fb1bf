package avail

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/client"
)

const (
	equalTimeout    = time.Minute // for what was written to be processed
	equalPoll       = 250 * time.Millisecond
	settle          = time.Second // after which counts that were right must still be right: nothing may come twice
	verifyWorkers   = 16
	verifyWait      = 10 * time.Second // of a read, for an active
	differencesKept = 10
)

// A verdict is the comparison of the counts with what was acknowledged.
type verdict struct {
	keys        int
	records     int64
	differences []string
	// replicas is what is wrong with replicas, entries how many of them were compared. Of scenario mixed.
	replicas []string
	entries  int64
}

// verify compares every key twice: counts that are right and have had a second more to become wrong.
func (r *run) verify(ctx context.Context) (verdict, error) {
	want, total := r.feed.counts()
	begun, right := r.now(), false
	for {
		got, err := r.readAll(ctx)
		if err != nil {
			return verdict{}, err
		}
		v := verdict{keys: len(got), records: total, differences: differences(want, got)}
		equal := len(v.differences) == 0
		if equal && right || !equal && (right || r.now()-begun > equalTimeout) {
			return v, nil
		}
		pause := equalPoll
		if right = equal; right {
			pause = settle
		}
		if !sleep(ctx, pause) {
			return verdict{}, context.Cause(ctx)
		}
	}
}

// readAll reads every key with strong.
func (r *run) readAll(ctx context.Context) (map[string]int64, error) {
	got := make(map[string]int64)
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(verifyWorkers)
	for _, keys := range r.feed.keys {
		for _, key := range keys {
			g.Go(func() error {
				rctx, cancel := context.WithTimeout(ctx, verifyWait+readTimeout)
				defer cancel()
				res, err := r.asking[0].Get(rctx, store, []byte(key), client.Strong(), client.Wait(verifyWait))
				if err != nil {
					return fmt.Errorf("read %s with strong: %w", key, err)
				}
				n, err := countOf(res)
				if err != nil {
					return fmt.Errorf("read %s: %w", key, err)
				}
				mu.Lock()
				defer mu.Unlock()
				got[key] = n
				return nil
			})
		}
	}
	return got, g.Wait()
}

// differences says of each key whose count is not what it must be what it is; a key that is not there has none.
func differences(want, got map[string]int64) (all []string) {
	keys := maps.Clone(want)
	maps.Copy(keys, got)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if want[key] != got[key] {
			all = append(all, fmt.Sprintf("%s is %d, must be %d", key, got[key], want[key]))
		}
	}
	return all
}
