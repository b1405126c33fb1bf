package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/metadata"
)

// A Topic is what the catalog knows of one topic.
type Topic struct {
	ID      [16]byte
	Leaders []int32 // by partition; -1 while there is none
}

// A Catalog knows the topics that it was made for: ids, partition counts and leaders, kept up to date by Metadata requests.
type Catalog struct {
	cl     *kgo.Client
	log    *slog.Logger
	topics []string

	stale chan struct{} // holds a token when somebody met an error that a fresh look may cure
	// Refreshed, when given, is called after each look, by the goroutine that looked.
	Refreshed func()

	mu struct {
		sync.Mutex
		state map[string]Topic
	}
}

// NewCatalog makes a catalog of topics, which knows nothing before its first Refresh. It starts nothing.
func NewCatalog(cl *kgo.Client, log *slog.Logger, topics []string) *Catalog {
	c := &Catalog{cl: cl, log: log, topics: topics, stale: make(chan struct{}, 1)}
	c.mu.state = make(map[string]Topic)
	return c
}

// Invalidate asks for a fresh look soon.
func (c *Catalog) Invalidate() { Poke(c.stale) }

// Run looks again each interval and whenever Invalidate asked for it, at most every catalogMinInterval.
func (c *Catalog) Run(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.stale:
			if !Sleep(ctx, catalogMinInterval) {
				return nil
			}
		}
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("cannot look at the topics", slog.Any("error", err))
		}
	}
}

// Refresh asks Kafka once. Topics that do not exist have no state afterwards. One of which a broker says only that it has no
// leader, and nothing of its partitions, is as it was: that is no topic of no partitions.
func (c *Catalog) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
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
	state := make(map[string]Topic, len(resp.Topics))
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		if errors.Is(err, kerr.UnknownTopicOrPartition) || t.Topic == nil {
			continue
		}
		if err != nil && !errors.Is(err, kerr.LeaderNotAvailable) {
			return fmt.Errorf("ask for topic %s: %w", *t.Topic, err)
		}
		if len(t.Partitions) == 0 {
			if s, known := c.Topic(*t.Topic); known {
				state[*t.Topic] = s
			}
			continue
		}
		s := Topic{ID: t.TopicID, Leaders: make([]int32, len(t.Partitions))}
		for i := range s.Leaders {
			s.Leaders[i] = -1
		}
		for _, p := range t.Partitions {
			if int(p.Partition) < len(s.Leaders) && p.ErrorCode == 0 {
				s.Leaders[p.Partition] = p.Leader
			}
		}
		state[*t.Topic] = s
	}
	c.mu.Lock()
	c.mu.state = state
	c.mu.Unlock()
	if c.Refreshed != nil {
		c.Refreshed()
	}
	return nil
}

// Topic is what is known of a topic; ok is false when it did not exist at the last look.
func (c *Catalog) Topic(name string) (Topic, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.mu.state[name]
	return s, ok
}

// Partitions is the topic's partition count.
func (c *Catalog) Partitions(name string) (int32, bool) {
	s, ok := c.Topic(name)
	return int32(len(s.Leaders)), ok
}

// Leader is the broker that leads the partition, -1 while unknown.
func (c *Catalog) Leader(tp metadata.TopicPartition) int32 {
	s, ok := c.Topic(tp.Topic)
	if !ok || int(tp.Partition) >= len(s.Leaders) {
		return -1
	}
	return s.Leaders[tp.Partition]
}
