package node

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/serve"
	"github.com/iqgate/iqgate/store"
)

// running is what the server asks.
var _ serve.Node = (*running)(nil)

// newServing makes what answers queries; it begins to know stores when the node is up.
func (n *Node) newServing() *serve.Server {
	return serve.New(serve.Config{
		NodeID: n.cfg.NodeID, Address: n.address, Application: n.application, Followed: n.cfg.Replica != nil, Partitioners: n.cfg.Partitioners,
		DefaultPolicy: n.cfg.DefaultPolicy, LagSampleMaxAge: n.cfg.LagSampleMaxAge, ReportInterval: n.cfg.ReportInterval,
		MaxInFlight: n.cfg.MaxInFlight, MaxWaiting: n.cfg.MaxWaiting, MaxScans: n.cfg.MaxScans, MaxWatches: n.cfg.MaxWatches, ScanIdle: n.cfg.ScanIdle, Log: n.log,
		Requests: n.requests, Reads: n.reads,
		Node: func() serve.Node {
			if up := n.up.Load(); up != nil {
				return up
			}
			return nil
		},
		News: n.news.wait, Roles: n.roles.wait,
	})
}

// Store implements serve.Node.
func (up *running) Store(name string) (serve.Store, error) {
	spec, ok := up.tasks.stores[name]
	if !ok {
		return serve.Store{}, up.tasks.unknownStore(name)
	}
	return serve.Store{StoreSpec: spec, Partitions: up.tasks.counts[name]}, nil
}

// Usable implements serve.Node.
func (up *running) Usable(store string) error {
	if _, ok := up.tasks.stores[store]; !ok {
		return up.tasks.unknownStore(store)
	}
	if c, changed := up.changes()[store]; changed {
		return &iqerr.PartitionsChangedError{Store: store, Topic: c.topic, Want: up.tasks.counts[store], Have: c.actual}
	}
	return nil
}

// StoreInfos implements serve.Node.
func (up *running) StoreInfos() []metadata.StoreInfo {
	var all []metadata.StoreInfo
	changes := up.changes()
	for name, spec := range up.tasks.stores {
		info := metadata.StoreInfo{
			Name: name, Partitions: up.tasks.counts[name], Kind: spec.Kind.String(),
			KeySerde: spec.KeySerde, ValueSerde: spec.ValueSerde, Partitioner: spec.Partitioner, Changelog: spec.Changelog,
			SourceTopics: up.tasks.sources(spec), ActualPartitions: up.tasks.counts[name],
			WindowSize: spec.WindowSize, Retention: spec.Retention, Followed: up.tasks.followed,
		}
		if c, ok := changes[name]; ok {
			info.ActualPartitions = c.actual
		}
		if topic, ok := up.catalog.Topic(spec.Changelog); ok && topic.ID != [16]byte{} {
			info.ChangelogID = hex.EncodeToString(topic.ID[:])
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b metadata.StoreInfo) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Inputs implements serve.Node.
func (up *running) Inputs(id metadata.Partition) ([]metadata.TopicPartition, bool) {
	info := up.tasks.byStore[id]
	if info == nil {
		return nil, false
	}
	return info.inputs, true
}

// Replica implements serve.Node.
func (up *running) Replica(id metadata.Partition) serve.Replica {
	if r := up.replicas.get(id); r != nil {
		return r
	}
	return nil
}

// Reports implements serve.Node.
func (up *running) Reports(now time.Time) []metadata.Replica {
	all := up.replicas.list()
	reports := make([]metadata.Replica, 0, len(all))
	for _, r := range all {
		reports = append(reports, r.Report(now))
	}
	return reports
}

// Hosts implements serve.Node.
func (up *running) Hosts() *metadata.HostMap { return up.hosts.Load() }

// About implements serve.Node.
func (up *running) About() serve.About {
	return serve.About{
		Incarnation: up.node.incarnation, Sequence: up.node.sequence.Load(), Draining: up.node.drain.begun(),
		Misplaced: up.tasks.met.misplaced(), Dropped: up.tasks.met.dropped(),
	}
}

// Peek implements serve.Node: the worker looks between two batches, because only it may look at overlays.
func (up *running) Peek(ctx context.Context, id metadata.Partition, look func(store.Reader) error) (bool, error) {
	p := &peek{partition: id, look: look, reply: make(chan peeked, 1)}
	select {
	case up.worker.peeks <- p:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-up.node.stopped:
		return false, iqerr.ErrClosing
	}
	select {
	case got := <-p.reply:
		return got.running, got.err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-up.node.stopped:
		return false, iqerr.ErrClosing
	}
}

// Kafka implements serve.Node.
func (up *running) Kafka() (*kgo.Client, *kafka.Catalog) { return up.node.admin, up.catalog }

// Settle implements serve.Replica.
func (r *replica) Settle(ctx context.Context) error {
	f := r.flight.Load()
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Read implements serve.Replica.
func (r *replica) Read(look func(*store.KV) (store.Checkpoint, error)) (metadata.Replica, error) {
	r.reads.Add(1)
	// What makes an active's answer good must hold before the read as well as after it.
	was, flying := *r.now.Load(), r.flight.Load()
	held := r.set.lease.Valid(time.Now())
	input := r.input.Load() // before the value, so that it never covers what the value does not have
	kv := r.kv.Load()
	if kv == nil {
		return metadata.Replica{}, store.ErrClosed
	}
	at, err := look(kv)
	if err != nil {
		return metadata.Replica{}, err
	}
	now := time.Now()
	s := throughout(was, *r.now.Load())
	seen := metadata.Replica{
		Partition: r.id, Role: s.role, State: s.state, Generation: s.generation,
		Lag:        r.lag(s, at.Position, flying, now),
		LeaseValid: held && r.set.lease.Valid(now),
	}
	if s.runsActive() && input != nil {
		seen.Input = *input
	} else if samples := r.samples.Load(); samples != nil {
		seen.Input = inputAt(*samples, at.Position)
	}
	return seen, nil
}

// Damaged implements serve.Replica.
func (r *replica) Damaged(err error) {
	if r.broken.Load() == nil {
		r.breakDown(&brokenStore{reason: err.Error(), damaged: true})
	}
}

// State implements serve.Replica.
func (r *replica) State() metadata.State { return r.now.Load().state }

// KV implements serve.Replica.
func (r *replica) KV() *store.KV { return r.kv.Load() }

// Broken implements serve.Replica.
func (r *replica) Broken() bool { return r.broken.Load() != nil }

// Changelog implements serve.Replica.
func (r *replica) Changelog() metadata.TopicPartition { return r.changelog }

// Changes implements serve.Replica.
func (r *replica) Changes() *serve.Changes { return &r.changes }
