package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	maxBatchBytes  = 1_000_012 // Kafka's default of max.message.bytes, assumed of a topic whose limit is not known
	minMaxMessage  = 512
	configMaxBytes = "max.message.bytes"
	configCleanup  = "cleanup.policy"
)

// A TopicError says that a topic is not as the application needs it. Waiting does not help; somebody has to act.
type TopicError struct {
	Topic string
	Why   string
}

// Error names the topic.
func (e *TopicError) Error() string { return "topic " + e.Topic + ": " + e.Why }

// CreateTopic creates a topic with replication copies, -1 for the broker's default. One that exists is left as it is.
func CreateTopic(ctx context.Context, cl *kgo.Client, name string, partitions int32, replication int16, configs map[string]string) error {
	given := make(map[string]*string, len(configs))
	for k, v := range configs {
		given[k] = &v
	}
	_, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, replication, given, name)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) { // another node was faster
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return nil
}

// CheckCleanup refuses, with a TopicError, a topic whose cleanup.policy is not the one that policies has for it; "" lets
// any pass.
func CheckCleanup(ctx context.Context, cl *kgo.Client, policies map[string]string) error {
	if len(policies) == 0 {
		return nil
	}
	got, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, slices.Sorted(maps.Keys(policies))...)
	if err != nil {
		return fmt.Errorf("ask for the configuration of internal topics: %w", err)
	}
	for _, r := range got {
		if r.Err != nil {
			return fmt.Errorf("ask for the configuration of topic %s: %w", r.Name, r.Err)
		}
		for _, c := range r.Configs {
			if want := policies[r.Name]; c.Key == configCleanup && c.Value != nil && want != "" && *c.Value != want {
				return &TopicError{Topic: r.Name, Why: fmt.Sprintf("cleanup.policy is %q, but the application needs %q", *c.Value, want)}
			}
		}
	}
	return nil
}

// BatchLimits are the largest batches that topics take, by topic: the client must not make a larger one, or the broker
// refuses it whole.
type BatchLimits map[string]int32

// batchFraming is what the client counts of a batch beyond what the broker compares with max.message.bytes.
const batchFraming = 4

// of is the topic's limit as the client counts, Kafka's default for a topic whose limit is not known.
func (l BatchLimits) of(topic string) int32 {
	if n, ok := l[topic]; ok {
		return n + batchFraming
	}
	return maxBatchBytes + batchFraming
}

// LearnBatchLimits asks for the limits of topics.
func LearnBatchLimits(ctx context.Context, cl *kgo.Client, topics []string) (BatchLimits, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	got, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("ask for the message limits of topics: %w", err)
	}
	limits := make(BatchLimits, len(topics))
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
