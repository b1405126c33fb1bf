package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/cmd/internal/human"
)

const feedTick = 10 * time.Millisecond

// feed writes the flights at the rate and returns when all have arrived. Timestamps grow from record to record, so
// that "the latest flight" means the last one of the file whatever the partitions.
func (r *run) feed(ctx context.Context) error {
	rate, lines := r.o.rate(len(r.flights.lines)), r.flights.lines
	failed := make(chan error, 1)
	done := make(chan struct{})
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			select {
			case failed <- fmt.Errorf("write to topic %s: %w", r.names.input, err):
			default:
			}
			return
		}
		if r.fed.Add(1) == int64(len(lines)) {
			close(done)
		}
	}
	tick := time.NewTicker(feedTick)
	defer tick.Stop()
	begin, sent, stamp := time.Now(), 0, int64(0)
	for sent < len(lines) {
		due := min(len(lines), int(time.Since(begin).Seconds()*rate))
		for ; sent < due; sent++ {
			stamp = max(stamp+1, time.Now().UnixMilli())
			r.kafka.Produce(ctx, &kgo.Record{
				Topic: r.names.input, Key: []byte(r.flights.keys[sent]), Value: []byte(lines[sent]), Timestamp: time.UnixMilli(stamp),
			}, promise)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-failed:
			return err
		case <-tick.C:
		}
	}
	select {
	case <-done:
	case err := <-failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.screen.event(fmt.Sprintf("all %s flights are in Kafka", human.Thousands(int64(len(lines)))))
	return nil
}
