package serve

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
	"github.com/iqgate/iqgate/wire"
)

// metadataServer is the iq.v1 metadata service of a node. Who hosts what comes from the newest assignment, which names
// every host; lags are the node's own.
type metadataServer struct {
	iqv1.UnimplementedMetadataServiceServer
	*Server
	watchers atomic.Int64
}

// hosted returns what answers about a store, or all when it is empty, are made of. It is NOT_READY before the first
// assignment, but STORE_UNKNOWN for a store that the application does not have as soon as that is known.
func (s *metadataServer) hosted(store string) (Node, *metadata.HostMap, error) {
	node := s.node()
	if node == nil {
		return nil, nil, s.notUp()
	}
	if err := knows(node, store); err != nil {
		return nil, nil, err
	}
	hm := node.Hosts()
	if hm == nil {
		return nil, nil, s.notAssigned()
	}
	return node, hm, nil
}

// notAssigned is the refusal of what only an assignment can tell, before the first.
func (s *Server) notAssigned() error {
	return &iqerr.NotReadyError{Node: s.cfg.NodeID, Waiting: "the first assignment", RetryAfter: noActiveRetry}
}

// ListInstances implements MetadataService.
func (s *metadataServer) ListInstances(_ context.Context, req *iqv1.ListInstancesRequest) (*iqv1.ListInstancesResponse, error) {
	if req.GetStandbysOnly() && req.GetStore() == "" {
		return nil, iqerr.Status(iqerr.Invalid("standbys_only", true, "needs a store"))
	}
	node, hm, err := s.hosted(req.GetStore())
	if err != nil {
		return nil, iqerr.Status(err)
	}
	resp := &iqv1.ListInstancesResponse{}
	for _, h := range hm.Hosts {
		if in := s.instance(node, hm, h, req); in != nil {
			resp.Instances = append(resp.Instances, in)
		}
	}
	return resp, nil
}

// instance is one host as the request asks for it, nil when it does not host the store. What only a node itself knows is
// there for this node alone.
func (s *metadataServer) instance(node Node, hm *metadata.HostMap, h metadata.Host, req *iqv1.ListInstancesRequest) *iqv1.Instance {
	in := &iqv1.Instance{Node: string(h.Node), Address: h.Address, Rack: h.Rack, Alive: true, Generation: int64(hm.Generation)}
	in.StandbyPartitions, in.StandbyStores = s.sourcesOf(node, h.Standby, req.GetStore())
	if !req.GetStandbysOnly() {
		in.ActivePartitions, in.ActiveStores = s.sourcesOf(node, h.Active, req.GetStore())
	}
	if req.GetStore() != "" && len(in.GetActiveStores())+len(in.GetStandbyStores()) == 0 {
		return nil
	}
	if string(h.Node) != s.cfg.NodeID {
		return in
	}
	about := node.About()
	in.Incarnation, in.Sequence = int64(about.Incarnation), about.Sequence
	in.Interval, in.LastHeard = durationpb.New(s.cfg.ReportInterval), durationpb.New(0)
	in.InFlight, in.Draining = s.inFlight.Load(), about.Draining
	in.Misplaced, in.Dropped = wire.Misplaced(misplacedOf(about.Misplaced, req.GetStore())), wire.Dropped(about.Dropped)
	for _, rep := range node.Reports(time.Now()) {
		if req.GetStore() != "" && rep.Store != req.GetStore() || req.GetStandbysOnly() && rep.Role == metadata.RoleActive {
			continue
		}
		in.Replicas = append(in.Replicas, wire.Status(s.cfg.NodeID, s.cfg.Address, rep))
		if rep.Input != nil {
			in.Inputs = append(in.Inputs, &iqv1.ReplicaInput{Store: rep.Store, Partition: rep.Partition.Partition, InputPosition: wire.Position(rep.Input)})
		}
	}
	return in
}

// misplacedOf leaves what is of one store, or all when store is empty. It shows keys, and who may know of one store may not
// know of all.
func misplacedOf(list []metadata.Misplaced, store string) []metadata.Misplaced {
	var own []metadata.Misplaced
	for _, m := range list {
		if store == "" || m.Store == store {
			own = append(own, m)
		}
	}
	return own
}

// sourcesOf gives the input partitions and the names of the stores of partitions, both sorted.
func (s *metadataServer) sourcesOf(node Node, ps []metadata.Partition, store string) ([]*iqv1.TopicPartition, []string) {
	var tps []metadata.TopicPartition
	var stores []string
	for _, p := range ps {
		inputs, ok := node.Inputs(p)
		if !ok || store != "" && p.Store != store {
			continue
		}
		tps = append(tps, inputs...)
		stores = append(stores, p.Store)
	}
	slices.SortFunc(tps, metadata.TopicPartition.Compare)
	slices.Sort(stores)
	var out []*iqv1.TopicPartition
	for _, tp := range slices.Compact(tps) {
		out = append(out, &iqv1.TopicPartition{Topic: tp.Topic, Partition: tp.Partition})
	}
	return out, slices.Compact(stores)
}

// knows refuses a store that the application does not have; the empty name stands for all.
func knows(node Node, name string) error {
	if name == "" {
		return nil
	}
	_, err := node.Store(name)
	return err
}

// ListStores implements MetadataService.
func (s *metadataServer) ListStores(context.Context, *iqv1.ListStoresRequest) (*iqv1.ListStoresResponse, error) {
	node := s.node()
	if node == nil {
		return nil, iqerr.Status(s.notUp())
	}
	return &iqv1.ListStoresResponse{Stores: storeProtos(node, "")}, nil
}

// storeProtos describes one store, or every one, by name, when name is empty.
func storeProtos(node Node, name string) []*iqv1.StoreInfo {
	var list []*iqv1.StoreInfo
	for _, info := range node.StoreInfos() {
		if name == "" || name == info.Name {
			list = append(list, wire.Store(info))
		}
	}
	return list
}

// QueryKey implements MetadataService.
func (s *metadataServer) QueryKey(_ context.Context, req *iqv1.QueryKeyRequest) (*iqv1.QueryKeyResponse, error) {
	if req.GetStore() == "" {
		return nil, iqerr.Status(iqerr.Invalid("store", "", "must be given"))
	}
	node, hm, err := s.hosted(req.GetStore())
	if err == nil {
		err = node.Usable(req.GetStore())
	}
	var in []int32
	if err == nil {
		in, err = s.partitionsOf(node, req.GetStore(), req.GetKey(), req.GetPartitioner())
	}
	if err != nil {
		return nil, iqerr.Status(err)
	}
	resp := &iqv1.QueryKeyResponse{}
	for _, p := range in {
		id := metadata.Partition{Store: req.GetStore(), Partition: p}
		kp := &iqv1.KeyPartition{Partition: p}
		for _, h := range hm.Hosts {
			st := &iqv1.ReplicaStatus{Node: string(h.Node), Address: h.Address, Store: id.Store, Partition: p, Generation: int64(hm.Generation)}
			if string(h.Node) == s.cfg.NodeID {
				if r := node.Replica(id); r != nil {
					st = wire.Status(s.cfg.NodeID, s.cfg.Address, r.Report(time.Now()))
				}
			}
			switch {
			case slices.Contains(h.Active, id):
				st.Role = iqv1.Role_ROLE_ACTIVE
				kp.Active = st
			case slices.Contains(h.Standby, id):
				if st.GetRole() == iqv1.Role_ROLE_UNSPECIFIED {
					st.Role = iqv1.Role_ROLE_STANDBY
				}
				kp.Standbys = append(kp.Standbys, st)
			}
		}
		resp.Partitions = append(resp.Partitions, kp)
	}
	return resp, nil
}

// ListLags implements MetadataService: the lags of this node's own replicas. Before the first assignment they are those
// of the stores that an earlier run left, if there are any.
func (s *metadataServer) ListLags(_ context.Context, req *iqv1.ListLagsRequest) (*iqv1.ListLagsResponse, error) {
	node := s.node()
	if node == nil {
		return nil, iqerr.Status(s.notUp())
	}
	if err := knows(node, req.GetStore()); err != nil {
		return nil, iqerr.Status(err)
	}
	resp := &iqv1.ListLagsResponse{}
	for _, rep := range node.Reports(time.Now()) {
		if req.GetStore() == "" || rep.Store == req.GetStore() {
			resp.Replicas = append(resp.Replicas, wire.Status(s.cfg.NodeID, s.cfg.Address, rep))
		}
	}
	if len(resp.GetReplicas()) == 0 && node.Hosts() == nil {
		return nil, iqerr.Status(s.notAssigned())
	}
	return resp, nil
}

// Explain implements MetadataService: what this node would answer, or why not. A refusal is part of the answer; only a
// wrong request is an error.
func (s *metadataServer) Explain(_ context.Context, req *iqv1.ExplainRequest) (*iqv1.ExplainResponse, error) {
	get := req.GetGet()
	if get == nil {
		return nil, iqerr.Status(iqerr.Invalid("get", "", "must be given"))
	}
	if get.GetStore() == "" {
		return nil, iqerr.Status(iqerr.Invalid("get.store", "", "must be given"))
	}
	p, err := policyOf(get.GetPolicy(), s.cfg.DefaultPolicy)
	if err != nil {
		return nil, iqerr.Status(err)
	}
	resp := &iqv1.ExplainResponse{}
	asked := query.GetOf(get)
	ids, _, err := s.locate(&asked)
	if iqerr.ReasonOf(err) == iqv1.Reason_REASON_INVALID {
		return nil, iqerr.Status(err)
	}
	if err == nil {
		resp.Decision, err = s.decide(p, ids, get)
	}
	if err != nil {
		resp.Error, resp.Reason = err.Error(), iqerr.ReasonOf(err)
	}
	return resp, nil
}

// decide judges this node's replica of each of a key's partitions. The error is the first one's refusal when none may
// answer.
func (s *metadataServer) decide(p policy, ids []metadata.Partition, get *iqv1.GetRequest) (*iqv1.Decision, error) {
	node := s.node()
	d := &iqv1.Decision{Store: get.GetStore()}
	if len(ids) == 0 {
		return d, nil
	}
	d.Partition = ids[0].Partition
	var refused error
	now, rank := time.Now(), int32(0)
	for _, id := range ids {
		r := node.Replica(id)
		if r == nil {
			refused = cmp.Or(refused, s.notHosted(node, id))
			continue
		}
		rep := r.Report(now)
		reason, why := judge(p, rep, s.cfg.LagSampleMaxAge)
		c := candidate(wire.Status(s.cfg.NodeID, s.cfg.Address, rep), reason, why)
		if reason != iqv1.Reason_REASON_UNSPECIFIED {
			refused = cmp.Or(refused, s.refuse(p, id, c, get.GetPolicy().GetAtLeast()))
		} else {
			rank++
			c.Rank, c.Why = rank, "within the policy"
		}
		d.Candidates = append(d.Candidates, c)
	}
	if rank > 0 {
		return d, nil
	}
	return d, refused
}
