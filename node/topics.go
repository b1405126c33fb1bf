package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/topology"
)

// Pauses while the node waits for what it cannot work without; each says in the log what it waits for.
const (
	waitForTopics  = time.Second
	waitLogEvery   = 5 // tries between two lines of the log
	maxBatchBytes  = 1_000_012
	minMaxMessage  = 512
	configMaxBytes = "max.message.bytes"
)

// topicError says that a topic is not as the application needs it. Waiting does not help; somebody has to act.
type topicError struct {
	topic string
	why   string
}

func (e *topicError) Error() string { return "topic " + e.topic + ": " + e.why }

// topicsOf are all topics of the application, internal ones included.
func topicsOf(t *topology.Topology) []string {
	names := slices.Concat(t.ExternalTopics(), t.SourceTopics(), writtenTopics(t))
	slices.Sort(names)
	return slices.Compact(names)
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
func prepareTopics(ctx context.Context, cfg Config, cl *kgo.Client, cat *catalog, log *slog.Logger) (*taskTable, error) {
	t := cfg.Topology
	for tries := 0; ; tries++ {
		table, waiting, err := tryTopics(ctx, cfg, cl, cat)
		if err == nil && table != nil {
			return table, nil
		}
		var fatal *topicError
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
		if !sleep(ctx, waitForTopics) {
			return nil, ctx.Err()
		}
	}
}

// tryTopics is one try of prepareTopics: a table, or the topics that are missing, or an error.
func tryTopics(ctx context.Context, cfg Config, cl *kgo.Client, cat *catalog) (*taskTable, []string, error) {
	if err := cat.refresh(ctx); err != nil {
		return nil, nil, err
	}
	external := cfg.Topology.ExternalTopics()
	var missing []string
	for _, name := range external {
		if _, ok := cat.topic(name); !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, missing, nil
	}
	internal, err := cfg.Topology.InternalTopics(cat.partitions)
	if err != nil {
		return nil, nil, &topicError{topic: strings.Join(external, ", "), why: err.Error()}
	}
	adm := kadm.NewClient(cl)
	for _, it := range internal {
		if _, ok := cat.topic(it.Name); ok {
			continue
		}
		if err := createTopic(ctx, adm, it, cfg.ReplicationFactor); err != nil {
			return nil, nil, err
		}
	}
	if err := cat.refresh(ctx); err != nil {
		return nil, nil, err
	}
	for _, it := range internal {
		n, ok := cat.partitions(it.Name)
		if !ok {
			missing = append(missing, it.Name)
			continue
		}
		if n != it.Partitions {
			return nil, nil, &topicError{topic: it.Name, why: fmt.Sprintf("has %d partitions, but the application needs %d, as many as its source topics have (expected %d, actual %d)", n, it.Partitions, it.Partitions, n)}
		}
	}
	if len(missing) > 0 {
		return nil, missing, nil
	}
	if err := checkConfigs(ctx, adm, internal); err != nil {
		return nil, nil, err
	}
	table, err := newTaskTable(cfg.Topology, cat.partitions)
	if err != nil {
		return nil, nil, &topicError{topic: cfg.Topology.Application(), why: err.Error()}
	}
	return table, nil, nil
}

func createTopic(ctx context.Context, adm *kadm.Client, it topology.InternalTopic, replication int16) error {
	configs := make(map[string]*string, len(it.Configs))
	for k, v := range it.Configs {
		configs[k] = &v
	}
	_, err := adm.CreateTopic(ctx, it.Partitions, replication, configs, it.Name)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // another node was faster
		return fmt.Errorf("create topic %s: %w", it.Name, err)
	}
	return nil
}

// checkConfigs refuses an internal topic whose clean-up would lose state: a changelog must be compacted and nothing else,
// a repartition topic must not be compacted.
func checkConfigs(ctx context.Context, adm *kadm.Client, internal []topology.InternalTopic) error {
	names := make([]string, len(internal))
	for i, it := range internal {
		names[i] = it.Name
	}
	if len(names) == 0 {
		return nil
	}
	got, err := adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return fmt.Errorf("ask for the configuration of internal topics: %w", err)
	}
	want := make(map[string]string, len(internal))
	for _, it := range internal {
		want[it.Name] = it.Configs["cleanup.policy"]
	}
	for _, r := range got {
		if r.Err != nil {
			return fmt.Errorf("ask for the configuration of topic %s: %w", r.Name, r.Err)
		}
		for _, c := range r.Configs {
			if c.Key == "cleanup.policy" && c.Value != nil && want[r.Name] != "" && *c.Value != want[r.Name] {
				return &topicError{topic: r.Name, why: fmt.Sprintf("cleanup.policy is %q, but the application needs %q", *c.Value, want[r.Name])}
			}
		}
	}
	return nil
}

// batchLimits are the largest batches that topics take, by topic: the client must not make a larger one, or the broker
// refuses it whole.
type batchLimits map[string]int32

// batchFraming is what the client counts of a batch beyond what the broker compares with max.message.bytes.
const batchFraming = 4

// of is the topic's limit as the client counts, Kafka's default for a topic whose limit is not known.
func (l batchLimits) of(topic string) int32 {
	if n, ok := l[topic]; ok {
		return n + batchFraming
	}
	return maxBatchBytes + batchFraming
}

// learnBatchLimits asks for the limits of every topic that the application writes.
func learnBatchLimits(ctx context.Context, cl *kgo.Client, t *topology.Topology) (batchLimits, error) {
	names := writtenTopics(t)
	if len(names) == 0 {
		return nil, nil
	}
	got, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("ask for the message limits of topics: %w", err)
	}
	limits := make(batchLimits, len(names))
	for _, r := range got {
		for _, c := range r.Configs {
			if c.Key == configMaxBytes && c.Value != nil {
				if n, err := strconv.ParseInt(*c.Value, 10, 32); err == nil {
					limits[r.Name] = min(max(int32(n), minMaxMessage), maxRecordBytes)
				}
			}
		}
	}
	return limits, nil
}
