package node

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
)

// sampleEnds asks for the end of every changelog of this node's replicas each interval: one request a broker for all of
// them. The moment that counts is when the request was sent, by this node's monotonic clock. Before each the group's
// committed input offsets are asked for, so that a standby knows its input position.
func (n *Node) sampleEnds(ctx context.Context) error {
	tick := time.NewTicker(n.cfg.LagSampleInterval)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := n.sampleOnce(ctx)
		if err != nil && ctx.Err() == nil {
			n.cfg.work.SampleFailures.Add(1)
		}
		if err != nil && !failing && ctx.Err() == nil {
			n.log.Warn("cannot learn the ends of changelogs; time lags grow until it works again", slog.Any("error", err))
		}
		failing = err != nil
	}
}

func (n *Node) sampleOnce(ctx context.Context) error {
	all := n.replicas.list()
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	var changelogs, inputs []metadata.TopicPartition
	for _, r := range all {
		changelogs = append(changelogs, r.changelog)
		inputs = append(inputs, n.tasks.task(r.task).inputs...)
	}
	slices.SortFunc(changelogs, metadata.TopicPartition.Compare)
	slices.SortFunc(inputs, metadata.TopicPartition.Compare)
	committed, err := kafka.CommittedOffsets(ctx, n.admin, n.application, slices.Compact(inputs), false)
	if err != nil {
		n.log.Debug("cannot learn the committed input offsets", slog.Any("error", err))
		committed = nil // lag does not need them
	}
	applied := make(map[*replica]int64, len(all))
	for _, r := range all {
		applied[r] = r.position()
	}
	sent := time.Now()
	ends, err := kafka.ListOffsets(ctx, n.admin, changelogs, kafka.AtEnd)
	if err != nil {
		return err
	}
	n.sampled.Store(&sent)
	for _, r := range all {
		end, ok := ends[r.changelog]
		if !ok || end < applied[r] { // a log that ends below what was read of it is not the one that was read
			continue
		}
		s := sample{At: sent, End: end}
		if committed != nil {
			s.Input = make(metadata.Position)
			info := n.tasks.task(r.task)
			for _, tp := range info.inputs {
				s.Input[tp] = max(committed[tp], 0)
			}
			if info.own { // whoever has applied it has it
				s.Input[r.changelog] = end
			}
		}
		r.addSample(s)
	}
	n.news.announce()
	return nil
}
