package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/mux"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/tally"
	"github.com/iqgate/iqgate/wire"
)

// queryServer is the iq.v1 query service of a node: it answers what it hosts and refuses the rest. A policy is judged with
// what the node knows right after the read of the value, so that no bound is honoured by an older look (I4).
//
// Get is not among its methods: mux has it answered by lookup, from bytes to bytes, as it has each lookup of a Lookups stream.
type queryServer struct {
	iqv1.UnimplementedQueryServiceServer
	*Server
	stream mux.Server
}

// Lookups answers a stream of lookups, each as Get is answered: by lookup.
func (s *queryServer) Lookups(stream iqv1.QueryService_LookupsServer) error {
	return s.stream.Serve(stream)
}

// lookup looks one key up: a GetRequest is answered by a GetResponse, both as they are on the wire.
func (s *Server) lookup(ctx context.Context, request []byte) ([]byte, error) {
	began := time.Now()
	reply, err := s.lookUp(ctx, request)
	s.cfg.Requests.End(tally.Get, time.Since(began), err)
	if err != nil {
		return nil, auth.ConfineError(ctx, iqerr.Status(err))
	}
	return reply, nil
}

func (s *Server) lookUp(ctx context.Context, request []byte) ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.exit()
	if s.closing.Load() {
		return nil, &iqerr.ClosingError{Node: s.cfg.NodeID}
	}
	req, err := query.ParseGet(request)
	if err != nil {
		return nil, err
	}
	if err := auth.CheckLookup(ctx, req.Store, req.Key); err != nil {
		return nil, err
	}
	reply, err := s.get(ctx, &req)
	if err != nil {
		if iqerr.ReasonOf(err) == iqv1.Reason_REASON_UNSPECIFIED && ctx.Err() == nil {
			s.cfg.Log.Error("a read failed", slog.String("store", req.Store), slog.Any("error", err))
		}
	}
	return reply, err
}

func (s *Server) get(ctx context.Context, req *query.Get) ([]byte, error) {
	p, err := policyOf(req.Policy, s.cfg.DefaultPolicy)
	if req.Store == "" {
		err = errors.Join(err, iqerr.Invalid("store", "", "must be given"))
	}
	if err != nil {
		return nil, err
	}
	var reply []byte
	if p.wait == 0 {
		reply, err = s.tryKey(ctx, p, req)
	} else {
		reply, err = s.awaitKey(ctx, p, req)
	}
	if err != nil {
		s.cfg.Reads.Of(req.Store).Refused(tally.Policy(p.mode), err)
	}
	return reply, err
}

// awaitKey is tryKey for a read that may wait.
func (s *Server) awaitKey(ctx context.Context, p policy, req *query.Get) (reply []byte, err error) {
	err = s.await(ctx, p, func() (err error) {
		reply, err = s.tryKey(ctx, p, req)
		return err
	})
	return reply, err
}

// await tries a read, and again with each news as long as the policy waits and that may help.
func (s *Server) await(ctx context.Context, p policy, try func() error) error {
	err := try()
	if p.wait == 0 || !waitHelps(err) {
		return err
	}
	if s.waiting.Add(1) > int64(s.cfg.MaxWaiting) {
		s.waiting.Add(-1)
		return &iqerr.OverloadedError{Node: s.cfg.NodeID, InFlight: int64(s.cfg.MaxWaiting), Limit: int64(s.cfg.MaxWaiting), RetryAfter: noActiveRetry}
	}
	defer s.waiting.Add(-1)
	timeout := time.NewTimer(p.wait)
	defer timeout.Stop()
	for {
		changed := s.cfg.News()
		if s.closing.Load() { // a node that stops waits for the reads that run
			return &iqerr.ClosingError{Node: s.cfg.NodeID}
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
// every record of the key. It also says what to look for there.
func (s *Server) locate(req *query.Get) ([]metadata.Partition, lookup, error) {
	node := s.node()
	if node == nil {
		return nil, lookup{}, s.notUp()
	}
	if err := s.checkStore(node, req.Store, req.Application); err != nil {
		return nil, lookup{}, err
	}
	st, err := node.Store(req.Store)
	if err != nil {
		return nil, lookup{}, err
	}
	l, err := lookupOf(st.Kind, req)
	if err != nil {
		return nil, lookup{}, err
	}
	if req.HasPartition {
		if got, count := req.Partition, st.Partitions; got < 0 || got >= count {
			return nil, lookup{}, iqerr.Invalid("partition", got, fmt.Sprintf("the store's partitions are 0 to %d", count-1))
		}
		return []metadata.Partition{{Store: req.Store, Partition: req.Partition}}, l, nil
	}
	in, err := s.partitionsOf(node, req.Store, req.Key, "")
	if err != nil {
		return nil, lookup{}, err
	}
	if len(in) == 1 {
		return []metadata.Partition{{Store: req.Store, Partition: in[0]}}, l, nil
	}
	var all, here []metadata.Partition
	for _, p := range in {
		id := metadata.Partition{Store: req.Store, Partition: p}
		all = append(all, id)
		if node.Replica(id) != nil {
			here = append(here, id)
		}
	}
	if len(here) == 0 && len(all) > 0 {
		return all[:1], l, nil
	}
	return here, l, nil
}

// checkStore refuses another application's store, one that this has not, and one whose partition count has changed.
func (s *Server) checkStore(node Node, store, application string) error {
	if application != "" && application != s.cfg.Application {
		return iqerr.Invalid("application", application, "this node runs "+s.cfg.Application)
	}
	return node.Usable(store)
}

// notUp is the refusal of a node that has not found Kafka and its topics yet.
func (s *Server) notUp() error {
	return &iqerr.NotReadyError{Node: s.cfg.NodeID, Waiting: "Kafka and the application's topics", RetryAfter: time.Second}
}

// partitionsOf finds a key's partitions by a partitioner's name; the empty one is the store's.
func (s *Server) partitionsOf(node Node, store string, key []byte, name string) ([]int32, error) {
	st, err := node.Store(store)
	if err != nil {
		return nil, err
	}
	field, value := "partitioner", name
	if name == "" {
		field, value, name = "store", store, st.Partitioner
	}
	by, err := s.cfg.Partitioners.Get(name)
	if err != nil {
		return nil, iqerr.Invalid(field, value, err.Error())
	}
	in, err := partitioner.Lookup(by, key, st.Partitions)
	if err != nil {
		return nil, iqerr.Invalid("key", key, err.Error())
	}
	return in, nil
}

// tryKey reads the key in each of its partitions until one answers within the policy. The error is the first one's. It
// looks for the partitions each time: while a read waits their count may change.
func (s *Server) tryKey(ctx context.Context, p policy, req *query.Get) ([]byte, error) {
	ids, l, err := s.locate(req)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		s.cfg.Reads.Of(req.Store).Nowhere(tally.Policy(p.mode))
		return []byte{}, nil // no record of this key is kept anywhere
	}
	var first error
	for _, id := range ids {
		reply, err := s.tryRead(ctx, p, id, l, req.Explain)
		if err == nil {
			return reply, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// tryRead reads once and judges right after the read.
func (s *Server) tryRead(ctx context.Context, p policy, id metadata.Partition, l lookup, explain bool) ([]byte, error) {
	var f found
	was, err := s.see(ctx, p, id, func(kv *store.KV) (at store.Checkpoint, err error) {
		if f, at, err = l.inKV(kv); err != nil || !p.uncommitted {
			return at, err
		}
		seen, running, err := s.peek(ctx, id, l)
		if running {
			f = seen
		}
		return at, err
	})
	if err != nil {
		return nil, err
	}
	s.served(p, &was)
	return s.reply(&f, &was, explain)
}

// peek looks a key up with the uncommitted writes. It reports whether the replica is a running active here.
func (s *Server) peek(ctx context.Context, id metadata.Partition, l lookup) (found, bool, error) {
	var f found // whoever looks may do so after this call has given up
	running, err := s.node().Peek(ctx, id, func(r store.Reader) (err error) {
		f, err = l.in(r)
		return err
	})
	if err != nil || !running {
		return found{}, false, err
	}
	return f, true, nil
}

// notHosted names whom the newest host map names for the partition, the active first.
func (s *Server) notHosted(node Node, id metadata.Partition) error {
	e := &iqerr.NotHostedError{Node: s.cfg.NodeID, Store: id.Store, Partition: id.Partition}
	hm := node.Hosts()
	if hm == nil {
		return s.notAssigned()
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
func (s *Server) notOpen(p policy, id metadata.Partition, r Replica) error {
	now := time.Now()
	c := candidate(wire.Status(s.cfg.NodeID, s.cfg.Address, r.Report(now)), iqv1.Reason_REASON_STALE, "its store is not open yet")
	if p.mode == iqv1.ReadPolicy_MODE_STRONG || p.mode == iqv1.ReadPolicy_MODE_ACTIVE {
		c.Reason = iqv1.Reason_REASON_NO_ACTIVE
	}
	return s.refuse(p, id, c, nil)
}
