package demo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/cmd/internal/human"
)

const (
	drainTimeout  = time.Minute            // for what is fed to be processed
	equalTimeout  = 20 * time.Second       // from then on, for the stores behind the repartition topics
	equalPoll     = 250 * time.Millisecond // between two comparisons
	settle        = time.Second            // after which stores that were right must still be right: nothing may come twice
	verifyWorkers = 16
	verifyTimeout = 10 * time.Second // of one read
	verifyWait    = 8 * time.Second  // of it, for an active
)

// A verdict is the comparison of the stores with the file.
type verdict struct {
	got         map[string]contents
	differences []difference
}

// verify waits until the flights are processed and compares every key of every store, twice: stores that are right and
// have had a second more to become wrong.
func (r *run) verify(ctx context.Context) (verdict, error) {
	if err := r.drain(ctx); err != nil {
		return verdict{}, err
	}
	deadline := time.Now().Add(equalTimeout)
	right := false
	for {
		v, err := r.compare(ctx)
		if err != nil {
			return verdict{}, err
		}
		equal := len(v.differences) == 0
		if equal && right || !equal && (right || time.Now().After(deadline)) {
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

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// drain waits until all flights are in committed transactions.
func (r *run) drain(ctx context.Context) error {
	total := int64(len(r.flights.lines))
	ctx, cancel := context.WithTimeoutCause(ctx, drainTimeout, errDrain)
	defer cancel()
	for {
		n, err := r.processedSoFar(ctx)
		if err == nil {
			r.processed.Store(n)
		}
		if n >= total {
			return nil
		}
		if !sleep(ctx, equalPoll) {
			if cause := context.Cause(ctx); !errors.Is(cause, errDrain) {
				return cause
			}
			return fmt.Errorf("%s of %s flights are processed after %s more; see the logs in %s", human.Thousands(r.processed.Load()), human.Thousands(total), drainTimeout, r.dir)
		}
	}
}

var errDrain = errors.New("not all is processed")

// compare reads every key that a store must have, and two that none may have, with strong.
func (r *run) compare(ctx context.Context) (verdict, error) {
	got := make(map[string]contents)
	for _, store := range storeNames {
		got[store] = contents{}
	}
	var mu sync.Mutex // of the contents
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(verifyWorkers)
	for _, store := range storeNames {
		keys := []string{"", "NA"}
		for key := range r.flights.stores[store] {
			keys = append(keys, key)
		}
		for _, key := range keys {
			g.Go(func() error {
				text, found, err := r.strongText(ctx, store, key)
				if err != nil {
					return fmt.Errorf("read %s %q with strong: %w", store, key, err)
				}
				if found {
					mu.Lock()
					got[store][key] = text
					mu.Unlock()
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return verdict{}, err
	}
	return verdict{got: got, differences: differences(r.flights.stores, got)}, nil
}

// strongText is a key's value in the form of contents.
func (r *run) strongText(ctx context.Context, store, key string) (text string, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	res, err := r.client.Get(ctx, store, []byte(key), client.Strong(), client.Wait(verifyWait))
	if err != nil || !res.Found {
		return "", false, err
	}
	return valueText(store, res.Value), true, nil
}

// valueText is a value in the form of contents; one that is not as it must be is shown as it is.
func valueText(store string, value []byte) string {
	if store == byTail {
		if text, err := jsonText(value); err == nil {
			return text
		}
		return strconv.Quote(string(value))
	}
	if len(value) != 8 {
		return strconv.Quote(string(value))
	}
	return strconv.FormatInt(int64(binary.BigEndian.Uint64(value)), 10)
}
