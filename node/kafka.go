package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/iqgate/iqgate/metadata"
)

// Bounds of what the node asks of Kafka.
const (
	kafkaRequestTimeout = 5 * time.Second        // one request with its retries
	kafkaRetryMin       = 50 * time.Millisecond  // first pause after a failure
	kafkaRetryMax       = 2 * time.Second        // longest pause between two tries
	catalogMinInterval  = 100 * time.Millisecond // between two metadata requests that errors asked for
	maxRecordBytes      = 64 << 20               // the largest record written or read
)

// baseOptions are the options of each Kafka client of the node. The protocol is held at Kafka 3.6: from transaction.version
// 2 on the transaction's epoch would change at each end of a transaction behind the client's back, and offsets are
// committed here by requests of our own (see txn.go); and topics are named, not numbered, in every request.
func (c Config) baseOptions(more ...kgo.Opt) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("iqnode-" + c.NodeID),
		kgo.MaxVersions(kversion.V3_6_0()),
		kgo.MetadataMinAge(catalogMinInterval),
		kgo.RetryBackoffFn(func(tries int) time.Duration { return backoff(tries) }),
		kgo.RequestRetries(20),
		kgo.WithHooks(redialer{}),
		kgo.BrokerMaxReadBytes(maxRecordBytes + 36<<20),
	}
	opts = append(opts, c.KafkaOptions...)
	return append(opts, more...)
}

// backoff is the pause before try number tries, counted from 1: it doubles from kafkaRetryMin to kafkaRetryMax.
func backoff(tries int) time.Duration {
	d := kafkaRetryMin
	for range min(max(tries-1, 0), 10) {
		d *= 2
	}
	return min(d, kafkaRetryMax)
}

// sleep waits for d or until ctx ends, and says whether ctx goes on.
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

// topicState is what the catalog knows of one topic.
type topicState struct {
	id      [16]byte
	leaders []int32 // by partition; -1 while there is none
}

// A catalog knows the topics of the application: ids, partition counts and leaders, kept up to date by Metadata requests.
type catalog struct {
	cl     *kgo.Client
	log    *slog.Logger
	topics []string

	stale chan struct{} // holds a token when somebody met an error that a fresh look may cure
	// refreshed, when given, is called after each look, by the goroutine that looked.
	refreshed func()

	mu struct {
		sync.Mutex
		state map[string]topicState
	}
}

func newCatalog(cl *kgo.Client, log *slog.Logger, topics []string) *catalog {
	c := &catalog{cl: cl, log: log, topics: topics, stale: make(chan struct{}, 1)}
	c.mu.state = make(map[string]topicState)
	return c
}

// invalidate asks for a fresh look soon.
func (c *catalog) invalidate() { poke(c.stale) }

// poke puts a token into a channel of capacity one, unless there is one already.
func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run looks again each interval and whenever invalidate asked for it, at most every catalogMinInterval.
func (c *catalog) run(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.stale:
			if !sleep(ctx, catalogMinInterval) {
				return nil
			}
		}
		if err := c.refresh(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("cannot look at the topics", slog.Any("error", err))
		}
	}
}

// refresh asks Kafka once. Topics that do not exist have no state afterwards.
func (c *catalog) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaRequestTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, t := range c.topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = new(t)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return fmt.Errorf("ask for topics: %w", err)
	}
	state := make(map[string]topicState, len(resp.Topics))
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		if errors.Is(err, kerr.UnknownTopicOrPartition) || t.Topic == nil {
			continue
		}
		if err != nil && !errors.Is(err, kerr.LeaderNotAvailable) {
			return fmt.Errorf("ask for topic %s: %w", *t.Topic, err)
		}
		s := topicState{id: t.TopicID, leaders: make([]int32, len(t.Partitions))}
		for i := range s.leaders {
			s.leaders[i] = -1
		}
		for _, p := range t.Partitions {
			if int(p.Partition) < len(s.leaders) && p.ErrorCode == 0 {
				s.leaders[p.Partition] = p.Leader
			}
		}
		state[*t.Topic] = s
	}
	c.mu.Lock()
	c.mu.state = state
	c.mu.Unlock()
	if c.refreshed != nil {
		c.refreshed()
	}
	return nil
}

// topic is what is known of a topic; ok is false when it did not exist at the last look.
func (c *catalog) topic(name string) (topicState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.mu.state[name]
	return s, ok
}

// partitions is the topic's partition count.
func (c *catalog) partitions(name string) (int32, bool) {
	s, ok := c.topic(name)
	return int32(len(s.leaders)), ok
}

// leader is the broker that leads the partition, -1 while unknown.
func (c *catalog) leader(tp metadata.TopicPartition) int32 {
	s, ok := c.topic(tp.Topic)
	if !ok || int(tp.Partition) >= len(s.leaders) {
		return -1
	}
	return s.leaders[tp.Partition]
}

// byTopic groups partitions, in which those of a topic stand together, as requests want them.
func byTopic(tps []metadata.TopicPartition) iter.Seq2[string, []int32] {
	return func(yield func(string, []int32) bool) {
		for i := 0; i < len(tps); {
			topic := tps[i].Topic
			var partitions []int32
			for ; i < len(tps) && tps[i].Topic == topic; i++ {
				partitions = append(partitions, tps[i].Partition)
			}
			if !yield(topic, partitions) {
				return
			}
		}
	}
}

// Timestamps that ListOffsets understands.
const (
	atStart = -2
	atEnd   = -1
)

// listOffsets asks each leader once for the start or the end (high watermark) of partitions. A partition that could
// not be asked is left out; err is set when no broker answered.
func listOffsets(ctx context.Context, cl *kgo.Client, tps []metadata.TopicPartition, at int64) (map[metadata.TopicPartition]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	for topic, partitions := range byTopic(tps) {
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		for _, p := range partitions {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, at, -1
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	got := make(map[metadata.TopicPartition]int64, len(tps))
	var firstErr error
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			firstErr = errors.Join(firstErr, shard.Err)
			continue
		}
		resp, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if !ok {
			continue
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					firstErr = errors.Join(firstErr, fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err))
					continue
				}
				got[metadata.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p.Offset
			}
		}
	}
	if len(got) == 0 && firstErr != nil {
		return nil, fmt.Errorf("ask for offsets: %w", firstErr)
	}
	return got, nil
}

// errUnstable says that a transaction's offsets are not decided yet.
var errUnstable = errors.New("a transaction with these offsets is not decided yet")

// committedOffsets asks the group's coordinator for committed offsets; -1 stands for none. With stable it fails with
// errUnstable while a transaction that committed offsets of one of tps is open (KIP-447).
func committedOffsets(ctx context.Context, cl *kgo.Client, group string, tps []metadata.TopicPartition, stable bool) (map[metadata.TopicPartition]int64, error) {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = group, stable
	for topic, partitions := range byTopic(tps) {
		rt, gt := kmsg.NewOffsetFetchRequestTopic(), kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.Partitions = topic, partitions
		gt.Topic, gt.Partitions = topic, partitions
		req.Topics, g.Topics = append(req.Topics, rt), append(g.Topics, gt)
	}
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && len(resp.Groups) > 0 {
		err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for committed offsets of group %s: %w", group, err)
	}
	got := make(map[metadata.TopicPartition]int64, len(tps))
	take := func(topic string, partition int32, offset int64, code int16) error {
		switch err := kerr.ErrorForCode(code); {
		case errors.Is(err, kerr.UnstableOffsetCommit):
			return errUnstable
		case err != nil:
			return fmt.Errorf("ask for the committed offset of %s-%d: %w", topic, partition, err)
		}
		got[metadata.TopicPartition{Topic: topic, Partition: partition}] = offset
		return nil
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := take(t.Topic, p.Partition, p.Offset, p.ErrorCode); err != nil {
				return nil, err
			}
		}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				if err := take(t.Topic, p.Partition, p.Offset, p.ErrorCode); err != nil {
					return nil, err
				}
			}
		}
	}
	return got, nil
}
