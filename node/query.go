package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/store"
)

// queryServer is the iq.v1 query service of a node: it answers what it hosts and refuses the rest. A policy is judged with
// what the node knows right after the read of the value, so that no bound is honoured by an older look (I4).
type queryServer struct {
	iqv1.UnimplementedQueryServiceServer
	n *Node
}

// Get implements QueryService.
func (s *queryServer) Get(ctx context.Context, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	s.n.inFlight.Add(1)
	defer s.n.inFlight.Add(-1)
	resp, err := s.n.get(ctx, req)
	if err != nil {
		if iqerr.ReasonOf(err) == iqv1.Reason_REASON_UNSPECIFIED && ctx.Err() == nil {
			s.n.log.Error("a read failed", slog.String("store", req.GetStore()), slog.Any("error", err))
		}
		return nil, iqerr.Status(err)
	}
	return resp, nil
}

func (n *Node) get(ctx context.Context, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	if n.closing.Load() {
		return nil, &iqerr.ClosingError{Node: n.cfg.NodeID}
	}
	p, err := policyOf(req.GetPolicy(), n.cfg.DefaultPolicy)
	if req.GetStore() == "" {
		err = errors.Join(err, iqerr.Invalid("store", "", "must be given"))
	}
	if err != nil {
		return nil, err
	}
	resp, err := n.tryKey(ctx, p, req)
	if p.wait == 0 || !waitHelps(err) {
		return resp, err
	}
	if n.waiting.Add(1) > int64(n.cfg.MaxWaiting) {
		n.waiting.Add(-1)
		return nil, &iqerr.OverloadedError{Node: n.cfg.NodeID, InFlight: int64(n.cfg.MaxWaiting), Limit: int64(n.cfg.MaxWaiting), RetryAfter: noActiveRetry}
	}
	defer n.waiting.Add(-1)
	timeout := time.NewTimer(p.wait)
	defer timeout.Stop()
	for {
		changed := n.news.wait()
		if n.closing.Load() { // a node that stops waits for the reads that run
			return nil, &iqerr.ClosingError{Node: n.cfg.NodeID}
		}
		resp, err = n.tryKey(ctx, p, req)
		if !waitHelps(err) {
			return resp, err
		}
		select {
		case <-changed:
		case <-timeout.C:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
}

// waitHelps says whether a read may succeed later on this very node.
func waitHelps(err error) bool {
	return errors.Is(err, iqerr.ErrStale) || errors.Is(err, iqerr.ErrPositionNotReached) || errors.Is(err, iqerr.ErrNoActive) || errors.Is(err, iqerr.ErrNotHosted)
}

// locate finds the store partitions that a request is about: the one that it names, or those of its key that are here, one
// unless the store's partitioner is a multicast one, or else the key's first. There is none where the partitioner drops
// every record of the key.
func (n *Node) locate(req *iqv1.GetRequest) ([]metadata.Partition, error) {
	up := n.up.Load()
	if up == nil {
		return nil, n.notUp()
	}
	if req.GetApplication() != "" && req.GetApplication() != n.group {
		return nil, iqerr.Invalid("application", req.GetApplication(), "this node runs "+n.group)
	}
	if err := up.countIsRight(req.GetStore()); err != nil {
		return nil, err
	}
	if req.Partition != nil {
		if got, count := req.GetPartition(), up.tasks.counts[req.GetStore()]; got < 0 || got >= count {
			return nil, iqerr.Invalid("partition", got, fmt.Sprintf("the store's partitions are 0 to %d", count-1))
		}
		return []metadata.Partition{{Store: req.GetStore(), Partition: req.GetPartition()}}, nil
	}
	in, err := n.partitionsOf(up, req.GetStore(), req.GetKey(), "")
	if err != nil {
		return nil, err
	}
	var all, here []metadata.Partition
	for _, p := range in {
		id := metadata.Partition{Store: req.GetStore(), Partition: p}
		all = append(all, id)
		if up.replicas.get(id) != nil {
			here = append(here, id)
		}
	}
	if len(here) == 0 && len(all) > 0 {
		return all[:1], nil
	}
	return here, nil
}

// notUp is the refusal of a node that has not found Kafka and its topics yet.
func (n *Node) notUp() error {
	return &iqerr.NotReadyError{Node: n.cfg.NodeID, Waiting: "Kafka and the application's topics", RetryAfter: time.Second}
}

// countIsRight refuses a store that the application does not have, and one whose source topic has another partition count
// now: its keys may be elsewhere than where they are looked for (S29).
func (up *running) countIsRight(store string) error {
	if _, ok := up.tasks.stores[store]; !ok {
		return up.tasks.unknownStore(store)
	}
	if c, changed := up.changes()[store]; changed {
		return &iqerr.PartitionsChangedError{Store: store, Topic: c.topic, Want: up.tasks.counts[store], Have: c.actual}
	}
	return nil
}

// partitionsOf finds a key's partitions by a partitioner's name; the empty one is the store's.
func (n *Node) partitionsOf(up *running, store string, key []byte, name string) ([]int32, error) {
	field, value := "partitioner", name
	if name == "" {
		field, value, name = "store", store, up.tasks.stores[store].Partitioner
	}
	by, err := n.cfg.Partitioners.Get(name)
	if err != nil {
		return nil, iqerr.Invalid(field, value, err.Error())
	}
	in, err := partitioner.Lookup(by, key, up.tasks.counts[store])
	if err != nil {
		return nil, iqerr.Invalid("key", key, err.Error())
	}
	return in, nil
}

// tryKey reads the key in each of its partitions until one answers within the policy. The error is the first one's. It
// looks for the partitions each time: while a read waits their count may change.
func (n *Node) tryKey(ctx context.Context, p policy, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	ids, err := n.locate(req)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return &iqv1.GetResponse{}, nil // no record of this key is kept anywhere
	}
	var first error
	for _, id := range ids {
		resp, err := n.tryRead(ctx, p, id, req)
		if err == nil {
			return resp, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// tryRead reads once and judges right after the read.
func (n *Node) tryRead(ctx context.Context, p policy, id metadata.Partition, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	up := n.up.Load()
	r := up.replicas.get(id)
	if r == nil {
		return nil, n.notHosted(up, id)
	}
	if p.mode == iqv1.ReadPolicy_MODE_STRONG {
		if f := r.flight.Load(); f != nil {
			select {
			case <-f.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	// What makes an active's answer good must hold before the read as well as after it.
	was, flying := *r.now.Load(), r.flight.Load()
	heldBefore := r.set.lease.Valid(time.Now())
	before := r.input.Load() // before the value, so that it never covers what the value does not have
	kv := r.kv.Load()
	if kv == nil {
		return nil, n.notOpen(p, r)
	}
	value, found, at, err := kv.Get(req.GetKey())
	switch {
	case errors.Is(err, store.ErrClosed):
		return nil, n.notOpen(p, r)
	case errors.Is(err, store.ErrCorrupt):
		return nil, &iqerr.CorruptError{Node: n.cfg.NodeID, Store: id.Store, Partition: id.Partition, Problem: "its data are damaged; they are rebuilt from the changelog"}
	case err != nil:
		return nil, err
	}
	if p.uncommitted {
		if v, ok, err := n.peek(ctx, id, req.GetKey()); err == nil {
			value, found = v, ok
		} else if !errors.Is(err, errNotActive) {
			return nil, err
		}
	}
	now := time.Now()
	st := throughout(was, *r.now.Load())
	f := facts{
		standing: st, lag: r.lag(st, at.Position, flying, now), sampleMaxAge: n.cfg.LagSampleMaxAge,
		leaseValid: heldBefore && r.set.lease.Valid(now),
	}
	if st.runsActive() && before != nil {
		f.input = *before
	} else if samples := r.samples.Load(); samples != nil {
		f.input = inputAt(*samples, at.Position)
	}
	status := statusProto(n.cfg.NodeID, n.address, metadata.Replica{
		Partition: id, Role: st.role, State: st.state, Generation: st.generation, Lag: f.lag, LeaseValid: f.leaseValid,
	})
	if reason, why := judge(p, f); reason != iqv1.Reason_REASON_UNSPECIFIED {
		return nil, refuse(p, id, candidate(status, reason, why), req.GetPolicy().GetAtLeast())
	}
	resp := &iqv1.GetResponse{Found: found, Served: status, InputPosition: positionProto(f.input)}
	if found {
		resp.Value, resp.TimestampMs = value.Bytes, value.Timestamp
	}
	if req.GetExplain() {
		c := candidate(status, iqv1.Reason_REASON_UNSPECIFIED, "within the policy")
		c.Rank = 1
		resp.Decision = &iqv1.Decision{Store: id.Store, Partition: id.Partition, Candidates: []*iqv1.Candidate{c}}
	}
	return resp, nil
}

// peek asks the worker for a key with its uncommitted writes.
func (n *Node) peek(ctx context.Context, id metadata.Partition, key []byte) (store.Value, bool, error) {
	up := n.up.Load()
	p := &peek{partition: id, key: key, reply: make(chan peeked, 1)}
	select {
	case up.worker.peeks <- p:
	case <-ctx.Done():
		return store.Value{}, false, ctx.Err()
	case <-n.stopped:
		return store.Value{}, false, iqerr.ErrClosing
	}
	select {
	case got := <-p.reply:
		return got.value, got.found, got.err
	case <-ctx.Done():
		return store.Value{}, false, ctx.Err()
	case <-n.stopped:
		return store.Value{}, false, iqerr.ErrClosing
	}
}

// notHosted names whom the newest host map names for the partition, the active first.
func (n *Node) notHosted(up *running, id metadata.Partition) error {
	e := &iqerr.NotHostedError{Node: n.cfg.NodeID, Store: id.Store, Partition: id.Partition}
	hm := up.hosts.Load()
	if hm == nil {
		return n.notAssigned()
	}
	for _, h := range hm.Hosts {
		if slices.Contains(h.Active, id) {
			e.Named = slices.Insert(e.Named, 0, string(h.Node))
		} else if slices.Contains(h.Standby, id) {
			e.Named = append(e.Named, string(h.Node))
		}
	}
	return e
}

// notOpen is the refusal of a replica whose store is being opened or rebuilt.
func (n *Node) notOpen(p policy, r *replica) error {
	now := time.Now()
	c := candidate(statusProto(n.cfg.NodeID, n.address, r.report(now)), iqv1.Reason_REASON_STALE, "its store is not open yet")
	if p.mode == iqv1.ReadPolicy_MODE_STRONG || p.mode == iqv1.ReadPolicy_MODE_ACTIVE {
		c.Reason = iqv1.Reason_REASON_NO_ACTIVE
	}
	return refuse(p, r.id, c, nil)
}
