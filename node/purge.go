package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/iqgate/iqgate/kafka"
)

// purgeInterval is the time between two deletions of what was processed from the repartition topics (Kafka Streams'
// repartition.purge.interval.ms).
const purgeInterval = 30 * time.Second

// purge deletes the records of repartition topics that are committed as processed: nobody reads them again, and without it
// the topics, whose retention is unlimited so that nothing is lost, would grow for ever.
func (w *worker) purge(ctx context.Context) error {
	tick := time.NewTicker(purgeInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := w.purgeOnce(ctx); err != nil && ctx.Err() == nil {
			w.log.Debug("cannot delete processed repartition records", slog.Any("error", err))
		}
	}
}

func (w *worker) purgeOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	var offsets kadm.Offsets
	for _, id := range *w.owned.Load() {
		info := w.tasks.task(id)
		committed, err := kafka.CommittedOffsets(ctx, w.cl, w.group, info.inputs, false)
		if err != nil {
			return err
		}
		for _, tp := range info.inputs {
			if info.sub.Internal(tp.Topic) && committed[tp] > 0 {
				offsets.Add(kadm.Offset{Topic: tp.Topic, Partition: tp.Partition, At: committed[tp]})
			}
		}
	}
	if len(offsets) == 0 {
		return nil
	}
	_, err := kadm.NewClient(w.cl).DeleteRecords(ctx, offsets)
	return err
}
