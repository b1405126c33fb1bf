package node

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/topology"
)

// metadataServer is the iq.v1 metadata service of a node. Who hosts what comes from the newest assignment, which names
// every host; lags are the node's own.
type metadataServer struct {
	iqv1.UnimplementedMetadataServiceServer
	n *Node
}

// hosted returns what the answers are made of, or NOT_READY before the first assignment.
func (s *metadataServer) hosted() (*running, *metadata.HostMap, error) {
	up := s.n.up.Load()
	if up == nil {
		return nil, nil, iqerr.Status(&iqerr.NotReadyError{Node: s.n.cfg.NodeID, Waiting: "Kafka and the application's topics", RetryAfter: time.Second})
	}
	hm := up.hosts.Load()
	if hm == nil {
		return nil, nil, iqerr.Status(&iqerr.NotReadyError{Node: s.n.cfg.NodeID, Waiting: "the first assignment", RetryAfter: noActiveRetry})
	}
	return up, hm, nil
}

// ListInstances implements MetadataService.
func (s *metadataServer) ListInstances(_ context.Context, req *iqv1.ListInstancesRequest) (*iqv1.ListInstancesResponse, error) {
	up, hm, err := s.hosted()
	if err != nil {
		return nil, err
	}
	if err := s.known(up, req.GetStore()); err != nil {
		return nil, err
	}
	resp := &iqv1.ListInstancesResponse{}
	for _, h := range hm.Hosts {
		in := &iqv1.Instance{Node: string(h.Node), Address: h.Address, Rack: h.Rack, Alive: true, Generation: int64(hm.Generation)}
		in.ActivePartitions, in.ActiveStores = s.sourcesOf(up, h.Active, req.GetStore())
		in.StandbyPartitions, in.StandbyStores = s.sourcesOf(up, h.Standby, req.GetStore())
		if req.GetStore() != "" && len(in.ActiveStores)+len(in.StandbyStores) == 0 {
			continue
		}
		if string(h.Node) == s.n.cfg.NodeID {
			in.Incarnation = int64(s.n.incarnation)
			in.Replicas = s.lags(up, req.GetStore())
		}
		resp.Instances = append(resp.Instances, in)
	}
	return resp, nil
}

// sourcesOf gives the input partitions and the names of the stores of partitions, both sorted.
func (s *metadataServer) sourcesOf(up *running, ps []metadata.Partition, store string) ([]*iqv1.TopicPartition, []string) {
	var tps []metadata.TopicPartition
	var stores []string
	for _, p := range ps {
		info := up.tasks.byStore[p]
		if info == nil || store != "" && p.Store != store {
			continue
		}
		tps = append(tps, info.inputs...)
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

// known refuses a store that the application does not have; the empty name stands for all.
func (s *metadataServer) known(up *running, name string) error {
	if _, ok := up.tasks.stores[name]; ok || name == "" {
		return nil
	}
	return iqerr.Status(up.tasks.unknownStore(name))
}

// ListStores implements MetadataService.
func (s *metadataServer) ListStores(context.Context, *iqv1.ListStoresRequest) (*iqv1.ListStoresResponse, error) {
	up := s.n.up.Load()
	if up == nil {
		_, _, err := s.hosted()
		return nil, err
	}
	resp := &iqv1.ListStoresResponse{}
	for _, info := range up.storeInfos() {
		resp.Stores = append(resp.Stores, storeProto(info))
	}
	return resp, nil
}

// storeInfos describes every store, by name.
func (up *running) storeInfos() []metadata.StoreInfo {
	var all []metadata.StoreInfo
	changes := up.changes()
	for name, spec := range up.tasks.stores {
		info := metadata.StoreInfo{
			Name: name, Partitions: up.tasks.counts[name], Kind: spec.Kind.String(),
			KeySerde: spec.KeySerde, ValueSerde: spec.ValueSerde, Partitioner: spec.Partitioner, Changelog: spec.Changelog,
			SourceTopics: up.tasks.sources(spec), ActualPartitions: up.tasks.counts[name],
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

// sources are the topics that the store's task reads.
func (t *taskTable) sources(spec topology.StoreSpec) []string {
	if info := t.byStore[metadata.Partition{Store: spec.Name}]; info != nil {
		return info.sub.SourceTopics
	}
	return nil
}

// QueryKey implements MetadataService.
func (s *metadataServer) QueryKey(_ context.Context, req *iqv1.QueryKeyRequest) (*iqv1.QueryKeyResponse, error) {
	up, hm, err := s.hosted()
	if err != nil {
		return nil, err
	}
	if req.GetStore() == "" {
		return nil, iqerr.Status(iqerr.Invalid("store", "", "must be given"))
	}
	if err := s.known(up, req.GetStore()); err != nil {
		return nil, err
	}
	part, err := s.n.cfg.Partitioners.Get(up.tasks.stores[req.GetStore()].Partitioner)
	if err != nil {
		return nil, iqerr.Status(iqerr.Invalid("store", req.GetStore(), err.Error()))
	}
	in, err := partitioner.Lookup(part, req.GetKey(), up.tasks.counts[req.GetStore()])
	if err != nil {
		return nil, iqerr.Status(err)
	}
	resp := &iqv1.QueryKeyResponse{}
	for _, p := range in {
		id := metadata.Partition{Store: req.GetStore(), Partition: p}
		kp := &iqv1.KeyPartition{Partition: p}
		for _, h := range hm.Hosts {
			st := &iqv1.ReplicaStatus{Node: string(h.Node), Address: h.Address, Store: id.Store, Partition: p, Generation: int64(hm.Generation)}
			if string(h.Node) == s.n.cfg.NodeID {
				if r := up.replicas.get(id); r != nil {
					st = statusProto(s.n.cfg.NodeID, s.n.address, r.report(time.Now()))
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

// ListLags implements MetadataService: the lags of this node's own replicas.
func (s *metadataServer) ListLags(_ context.Context, req *iqv1.ListLagsRequest) (*iqv1.ListLagsResponse, error) {
	up := s.n.up.Load()
	if up == nil {
		_, _, err := s.hosted()
		return nil, err
	}
	if err := s.known(up, req.GetStore()); err != nil {
		return nil, err
	}
	return &iqv1.ListLagsResponse{Replicas: s.lags(up, req.GetStore())}, nil
}

func (s *metadataServer) lags(up *running, store string) []*iqv1.ReplicaStatus {
	var out []*iqv1.ReplicaStatus
	now := time.Now()
	for _, r := range up.replicas.list() {
		if store == "" || r.id.Store == store {
			out = append(out, statusProto(s.n.cfg.NodeID, s.n.address, r.report(now)))
		}
	}
	return out
}

// Explain implements MetadataService: what this node would answer, or why not.
func (s *metadataServer) Explain(ctx context.Context, req *iqv1.ExplainRequest) (*iqv1.ExplainResponse, error) {
	get := req.GetGet()
	if get == nil {
		return nil, iqerr.Status(iqerr.Invalid("get", "", "must be given"))
	}
	id, err := s.n.locate(get)
	if err != nil {
		return nil, iqerr.Status(err)
	}
	p, err := policyOf(get.GetPolicy(), s.n.cfg.DefaultPolicy)
	if err != nil {
		return nil, iqerr.Status(err)
	}
	up := s.n.up.Load()
	r := up.replicas.get(id)
	if r == nil {
		err := s.n.notHosted(up, id)
		return &iqv1.ExplainResponse{Error: err.Error(), Reason: iqerr.ReasonOf(err)}, nil
	}
	now := time.Now()
	rep := r.report(now)
	reason, why := judge(p, facts{
		standing: *r.now.Load(), lag: rep.Lag, input: rep.Input, leaseValid: rep.LeaseValid, sampleMaxAge: s.n.cfg.LagSampleMaxAge,
	})
	c := candidate(statusProto(s.n.cfg.NodeID, s.n.address, rep), reason, why)
	resp := &iqv1.ExplainResponse{
		Decision: &iqv1.Decision{Store: id.Store, Partition: id.Partition, Candidates: []*iqv1.Candidate{c}},
	}
	if reason != iqv1.Reason_REASON_UNSPECIFIED {
		resp.Error, resp.Reason = refuse(p, id, c, get.GetPolicy().GetAtLeast()).Error(), reason
	} else {
		c.Rank, c.Why = 1, "within the policy"
	}
	return resp, nil
}
