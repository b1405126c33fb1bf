package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/topology"
)

// Pauses while the node waits for what it cannot work without; each says in the log what it waits for.
const (
	waitForTopics = time.Second
	waitLogEvery  = 5 // tries between two lines of the log
)

// topicsOf are all topics of the application, internal ones included.
func topicsOf(t *topology.Topology) []string {
	names := slices.Concat(t.ExternalTopics(), t.SourceTopics(), writtenTopics(t))
	slices.Sort(names)
	return slices.Compact(names)
}

// inputTopics are the topics that the application reads, sorted; one that two sub-topologies read is there twice.
func inputTopics(t *topology.Topology) []string {
	var names []string
	for _, s := range t.Subtopologies() {
		names = append(names, s.SourceTopics...)
	}
	slices.Sort(names)
	return names
}

// writtenTopics are the changelogs and the topics of sinks.
func writtenTopics(t *topology.Topology) []string {
	var names []string
	for _, s := range t.Stores() {
		names = append(names, s.Changelog)
	}
	for _, sub := range t.Subtopologies() {
		for _, sink := range sub.Sinks {
			names = append(names, sink.Topic)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// prepareTopics waits until every topic that the application reads or writes exists, creates the internal ones, and
// checks those that are there. It returns the task table. It fails when a topic does not fit the application, or
// when ctx ends.
func prepareTopics(ctx context.Context, cfg Config, cl *kgo.Client, cat *kafka.Catalog, log *slog.Logger) (*taskTable, error) {
	t := cfg.Topology
	for tries := 0; ; tries++ {
		table, waiting, err := tryTopics(ctx, cfg, cl, cat)
		if err == nil && table != nil {
			return table, nil
		}
		var fatal *kafka.TopicError
		if errors.As(err, &fatal) || ctx.Err() != nil {
			return nil, err
		}
		if tries%waitLogEvery == 0 {
			if err != nil {
				log.Warn("waiting for Kafka", slog.String("brokers", strings.Join(cfg.Brokers, ",")), slog.Any("error", err))
			} else {
				log.Warn("waiting for topics that do not exist", slog.String("topics", strings.Join(waiting, ", ")), slog.String("application", t.Application()))
			}
		}
		if !kafka.Sleep(ctx, waitForTopics) {
			return nil, ctx.Err()
		}
	}
}

// tryTopics is one try of prepareTopics: a table, or the topics that are missing, or an error.
func tryTopics(ctx context.Context, cfg Config, cl *kgo.Client, cat *kafka.Catalog) (*taskTable, []string, error) {
	if err := cat.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	external := cfg.Topology.ExternalTopics()
	var missing []string
	for _, name := range external {
		if _, ok := cat.Topic(name); !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, missing, nil
	}
	internal, err := cfg.Topology.InternalTopics(cat.Partitions)
	if err != nil {
		return nil, nil, &kafka.TopicError{Topic: strings.Join(external, ", "), Why: err.Error()}
	}
	for _, it := range internal {
		if _, ok := cat.Topic(it.Name); ok {
			continue
		}
		if err := kafka.CreateTopic(ctx, cl, it.Name, it.Partitions, cfg.ReplicationFactor, it.Configs); err != nil {
			return nil, nil, err
		}
	}
	if err := cat.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	for _, it := range internal {
		n, ok := cat.Partitions(it.Name)
		if !ok {
			missing = append(missing, it.Name)
			continue
		}
		if n != it.Partitions {
			return nil, nil, &kafka.TopicError{Topic: it.Name, Why: fmt.Sprintf("has %d partitions, but the application needs %d, as many as its source topics have (expected %d, actual %d)", n, it.Partitions, it.Partitions, n)}
		}
	}
	if len(missing) > 0 {
		return nil, missing, nil
	}
	// A clean-up that would lose state is refused: a changelog must be compacted and nothing else, a repartition topic must
	// not be compacted.
	policies := make(map[string]string, len(internal))
	for _, it := range internal {
		policies[it.Name] = it.Configs["cleanup.policy"]
	}
	if err := kafka.CheckCleanup(ctx, cl, policies); err != nil {
		return nil, nil, err
	}
	table, err := newTaskTable(cfg.Topology, cat.Partitions)
	if err != nil {
		return nil, nil, &kafka.TopicError{Topic: cfg.Topology.Application(), Why: err.Error()}
	}
	return table, nil, nil
}
