package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
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
	n     *Node
	scans atomic.Int64 // scans and counts that run
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
	var resp *iqv1.GetResponse
	err = n.await(ctx, p, func() (err error) {
		resp, err = n.tryKey(ctx, p, req)
		return err
	})
	return resp, err
}

// await tries a read, and again with each news as long as the policy waits and that may help.
func (n *Node) await(ctx context.Context, p policy, try func() error) error {
	err := try()
	if p.wait == 0 || !waitHelps(err) {
		return err
	}
	if n.waiting.Add(1) > int64(n.cfg.MaxWaiting) {
		n.waiting.Add(-1)
		return &iqerr.OverloadedError{Node: n.cfg.NodeID, InFlight: int64(n.cfg.MaxWaiting), Limit: int64(n.cfg.MaxWaiting), RetryAfter: noActiveRetry}
	}
	defer n.waiting.Add(-1)
	timeout := time.NewTimer(p.wait)
	defer timeout.Stop()
	for {
		changed := n.news.wait()
		if n.closing.Load() { // a node that stops waits for the reads that run
			return &iqerr.ClosingError{Node: n.cfg.NodeID}
		}
		if err = try(); !waitHelps(err) {
			return err
		}
		select {
		case <-changed:
		case <-timeout.C:
			return err
		case <-ctx.Done():
			return err
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
	if err := n.checkStore(up, req.GetStore(), req.GetApplication()); err != nil {
		return nil, err
	}
	if _, err := lookupOf(up.tasks.stores[req.GetStore()].Kind, req); err != nil {
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

// checkStore refuses another application's store, one that this has not, and one whose partition count has changed.
func (n *Node) checkStore(up *running, store, application string) error {
	if application != "" && application != n.group {
		return iqerr.Invalid("application", application, "this node runs "+n.group)
	}
	return up.countIsRight(store)
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
	l, err := lookupOf(n.up.Load().tasks.stores[req.GetStore()].Kind, req)
	if err != nil {
		return nil, err
	}
	var first error
	for _, id := range ids {
		resp, err := n.tryRead(ctx, p, id, l, req.GetExplain())
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
func (n *Node) tryRead(ctx context.Context, p policy, id metadata.Partition, l lookup, explain bool) (*iqv1.GetResponse, error) {
	var f found
	rd, err := n.read(ctx, p, id, func(kv *store.KV) (at store.Checkpoint, err error) {
		if f, at, err = l.inKV(kv); err != nil || !p.uncommitted {
			return at, err
		}
		if seen, err := n.peek(ctx, id, l); err == nil {
			f = seen
		} else if !errors.Is(err, errNotActive) {
			return at, err
		}
		return at, nil
	})
	if err != nil {
		return nil, err
	}
	resp := &iqv1.GetResponse{Found: f.ok, Served: rd.status, InputPosition: positionProto(rd.input)}
	if f.ok {
		resp.Value, resp.TimestampMs, resp.ValidUntilMs = f.value.Bytes, f.value.Timestamp, f.until
	}
	if explain {
		c := candidate(rd.status, iqv1.Reason_REASON_UNSPECIFIED, "within the policy")
		c.Rank = 1
		resp.Decision = &iqv1.Decision{Store: id.Store, Partition: id.Partition, Candidates: []*iqv1.Candidate{c}}
	}
	return resp, nil
}

// peek asks the worker for a key with its uncommitted writes.
func (n *Node) peek(ctx context.Context, id metadata.Partition, l lookup) (found, error) {
	up := n.up.Load()
	p := &peek{partition: id, lookup: l, reply: make(chan peeked, 1)}
	select {
	case up.worker.peeks <- p:
	case <-ctx.Done():
		return found{}, ctx.Err()
	case <-n.stopped:
		return found{}, iqerr.ErrClosing
	}
	select {
	case got := <-p.reply:
		return got.found, got.err
	case <-ctx.Done():
		return found{}, ctx.Err()
	case <-n.stopped:
		return found{}, iqerr.ErrClosing
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
