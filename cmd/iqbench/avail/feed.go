package avail

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/partitioner"
)

const (
	feedTick         = 5 * time.Millisecond
	keysPerPartition = 25
	maxKeyTries      = 1 << 20
	flushTimeout     = 2 * time.Minute
)

// A feed is the input: it counts what Kafka has acknowledged, key by key.
type feed struct {
	keys   [][]string // by partition
	failed chan error // gets the first failure

	mu struct {
		sync.Mutex
		acked   map[string]int64
		arrived [][]step // by partition: the offset after the last record acknowledged
		total   int64
	}
}

// newFeed finds so many keys for each partition that the partitioner of the input puts there.
func newFeed(partitions int) (*feed, error) {
	f := &feed{keys: make([][]string, partitions), failed: make(chan error, 1)}
	f.mu.acked = make(map[string]int64)
	f.mu.arrived = make([][]step, partitions)
	missing := partitions * keysPerPartition
	for i := 0; missing > 0; i++ {
		if i == maxKeyTries {
			return nil, fmt.Errorf("no %d keys for each of %d partitions in %d tries", keysPerPartition, partitions, maxKeyTries)
		}
		key := "key-" + strconv.Itoa(i)
		if p := partitioner.Murmur2().Partition([]byte(key), int32(partitions)); len(f.keys[p]) < keysPerPartition {
			f.keys[p] = append(f.keys[p], key)
			missing--
		}
	}
	return f, nil
}

// key is the n-th key in an order in which partitions follow one another.
func (f *feed) key(n int) (key string, partition int) {
	partition = n % len(f.keys)
	return f.keys[partition][n/len(f.keys)%keysPerPartition], partition
}

// run writes records at a rate until ctx ends, and returns when all that was begun is acknowledged.
func (f *feed) run(ctx context.Context, cl *kgo.Client, rate int, now func() time.Duration) error {
	// What has begun may end: whether a record whose wait was given up has arrived, nobody knows.
	pctx := context.WithoutCancel(ctx)
	promise := func(rec *kgo.Record, err error) {
		if err != nil {
			select {
			case f.failed <- fmt.Errorf("write to %s: %w", topic, err):
			default:
			}
			return
		}
		at := now()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.mu.acked[string(rec.Key)]++
		f.mu.total++
		f.mu.arrived[rec.Partition] = addStep(f.mu.arrived[rec.Partition], step{at, rec.Offset + 1})
	}
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	begin, sent := now(), 0
	for ctx.Err() == nil {
		due := int((now() - begin).Seconds() * float64(rate))
		if due-sent > maxBuffered/2 { // so long a pause of this process is not made good
			begin, sent, due = now(), 0, 0
		}
		for ; sent < due && ctx.Err() == nil; sent++ {
			key, _ := f.key(sent)
			cl.TryProduce(pctx, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte("x")}, promise)
		}
		select {
		case <-ctx.Done():
		case err := <-f.failed:
			return err
		case <-tick.C:
		}
	}
	fctx, cancel := context.WithTimeout(pctx, flushTimeout)
	defer cancel()
	if err := cl.Flush(fctx); err != nil {
		return fmt.Errorf("the input is not written after %s: %w", flushTimeout, err)
	}
	select {
	case err := <-f.failed:
		return err
	default:
		return nil
	}
}

// counts are the records acknowledged, by key and in all.
func (f *feed) counts() (byKey map[string]int64, total int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.mu.acked), f.mu.total
}

// take gives the steps of each partition and forgets those that do not matter from a moment on.
func (f *feed) take(from time.Duration) [][]step {
	f.mu.Lock()
	defer f.mu.Unlock()
	return takeSteps(f.mu.arrived, from)
}

// takeSteps gives the steps and drops those in place that do not matter from a moment on.
func takeSteps(steps [][]step, from time.Duration) [][]step {
	taken := make([][]step, len(steps))
	for p := range steps {
		taken[p], steps[p] = steps[p], since(steps[p], from)
	}
	return taken
}
