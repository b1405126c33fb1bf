package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/metadata"
)

// An Inspector asks Kafka about topics and groups. It writes nothing and joins nothing.
type Inspector struct {
	cl  *kgo.Client
	log *slog.Logger
}

// NewInspector asks with a client, which stays the caller's.
func NewInspector(cl *kgo.Client, log *slog.Logger) *Inspector { return &Inspector{cl: cl, log: log} }

// Topics are the partition counts of all topics, by name.
func (k *Inspector) Topics(ctx context.Context) (map[string]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	got, err := kadm.NewClient(k.cl).ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for topics: %w", err)
	}
	all := make(map[string]int32, len(got))
	for name, t := range got {
		if t.Err == nil {
			all[name] = int32(len(t.Partitions))
		}
	}
	return all, nil
}

// Configs are the configurations of topics, by name and entry. A topic whose configuration may not be read is left out.
func (k *Inspector) Configs(ctx context.Context, topics []string) (map[string]map[string]string, error) {
	all := make(map[string]map[string]string, len(topics))
	if len(topics) == 0 {
		return all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	got, err := kadm.NewClient(k.cl).DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("ask for the configuration of topics: %w", err)
	}
	for _, r := range got {
		if r.Err != nil {
			continue
		}
		entries := make(map[string]string, len(r.Configs))
		for _, c := range r.Configs {
			if c.Value != nil {
				entries[c.Key] = *c.Value
			}
		}
		all[r.Name] = entries
	}
	return all, nil
}

// A GroupInfo is what is known of a consumer group.
type GroupInfo struct {
	State  string   // empty when there is no such group
	Topics []string // of which it has committed offsets, sorted
}

// Group looks at a consumer group.
func (k *Inspector) Group(ctx context.Context, name string) (GroupInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	adm := kadm.NewClient(k.cl)
	var g GroupInfo
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		return g, fmt.Errorf("ask for groups: %w", err)
	}
	if l, ok := listed[name]; ok {
		if g.State = l.State; g.State == "" { // a broker that does not list states
			g.State = "Known"
		}
	}
	offsets, err := adm.FetchOffsets(ctx, name)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return g, nil
	}
	if err != nil {
		return g, fmt.Errorf("ask for the committed offsets of group %s: %w", name, err)
	}
	for topic, parts := range offsets {
		for _, p := range parts {
			if p.Err == nil && p.At >= 0 {
				g.Topics = append(g.Topics, topic)
				break
			}
		}
	}
	slices.Sort(g.Topics)
	return g, nil
}

// Newest is what is at the end of a topic.
type Newest struct {
	Offsets int64         // between its starts and its ends, all partitions together
	Records []*kgo.Record // the committed ones among the newest offsets, by partition and in order
}

// Newest looks at the last offsets of each partition of topics, as far as one fetch brings them.
func (k *Inspector) Newest(ctx context.Context, topics []string, offsets int64) (map[string]Newest, error) {
	all := make(map[string]Newest, len(topics))
	if len(topics) == 0 {
		return all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	cat := NewCatalog(k.cl, k.log, topics)
	if err := cat.Refresh(ctx); err != nil {
		return nil, err
	}
	var tps []metadata.TopicPartition
	for _, topic := range topics {
		n, _ := cat.Partitions(topic)
		for p := range n {
			tps = append(tps, metadata.TopicPartition{Topic: topic, Partition: p})
		}
	}
	slices.SortFunc(tps, metadata.TopicPartition.Compare)
	starts, err := ListOffsets(ctx, k.cl, tps, AtStart)
	if err != nil {
		return nil, err
	}
	ends, err := ListOffsets(ctx, k.cl, tps, AtEnd)
	if err != nil {
		return nil, err
	}
	byBroker := make(map[int32][]Cursor)
	looks := make(map[metadata.TopicPartition]*look, len(tps))
	for _, tp := range tps {
		start, end := starts[tp], ends[tp]
		n := all[tp.Topic]
		n.Offsets += max(0, end-start)
		all[tp.Topic] = n
		if broker := cat.Leader(tp); end > start && broker >= 0 {
			looks[tp] = &look{tp: tp, from: max(start, end-offsets)}
			byBroker[broker] = append(byBroker[broker], looks[tp])
		}
	}
	f := NewFetcher(k.cl, cat, k.log, nil)
	for broker, cursors := range byBroker {
		for len(cursors) > 0 { // what did not fit into one reply
			if err := f.once(ctx, broker, cursors, 0); err != nil {
				return nil, fmt.Errorf("read the newest records: %w", err)
			}
			left := slices.DeleteFunc(slices.Clone(cursors), func(c Cursor) bool { return c.(*look).done() }) //nolint:forcetypeassert // made above
			if len(left) == len(cursors) {
				break // nothing more is to be had
			}
			cursors = left
		}
	}
	for _, tp := range tps {
		if l := looks[tp]; l != nil {
			n := all[tp.Topic]
			n.Records = append(n.Records, l.records...)
			all[tp.Topic] = n
		}
	}
	return all, nil
}

// A look is a partition that is fetched from once.
type look struct {
	tp   metadata.TopicPartition
	from int64

	mu      sync.Mutex
	records []*kgo.Record
	looked  bool
}

// At implements Cursor.
func (l *look) At() (metadata.TopicPartition, int64, bool) { return l.tp, l.from, !l.done() }

// Deliver implements Cursor. A reply without bytes means that others filled it, unless all there is are control records.
func (l *look) Deliver(_ context.Context, b Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records, l.looked = b.Records, l.looked || len(b.Records) > 0 || b.Next > b.From || b.Err != nil
}

func (l *look) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.looked
}
