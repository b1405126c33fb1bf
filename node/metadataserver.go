package node

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/topology"
)

// metadataServer is the iq.v1 metadata service of a node. Who hosts what comes from the newest assignment, which names
// every host; lags are the node's own.
type metadataServer struct {
	iqv1.UnimplementedMetadataServiceServer
	n        *Node
	watchers atomic.Int64
}

// hosted returns what answers about a store, or all when it is empty, are made of. It is NOT_READY before the first
// assignment, but STORE_UNKNOWN for a store that the application does not have as soon as that is known.
func (s *metadataServer) hosted(store string) (*running, *metadata.HostMap, error) {
	up := s.n.up.Load()
	if up == nil {
		return nil, nil, s.n.notUp()
	}
	if err := up.knows(store); err != nil {
		return nil, nil, err
	}
	hm := up.hosts.Load()
	if hm == nil {
		return nil, nil, s.n.notAssigned()
	}
	return up, hm, nil
}

// notAssigned is the refusal of what only an assignment can tell, before the first.
func (n *Node) notAssigned() error {
	return &iqerr.NotReadyError{Node: n.cfg.NodeID, Waiting: "the first assignment", RetryAfter: noActiveRetry}
}

// ListInstances implements MetadataService.
func (s *metadataServer) ListInstances(_ context.Context, req *iqv1.ListInstancesRequest) (*iqv1.ListInstancesResponse, error) {
	if req.GetStandbysOnly() && req.GetStore() == "" {
		return nil, iqerr.Status(iqerr.Invalid("standbys_only", true, "needs a store"))
	}
	up, hm, err := s.hosted(req.GetStore())
	if err != nil {
		return nil, iqerr.Status(err)
	}
	resp := &iqv1.ListInstancesResponse{}
	for _, h := range hm.Hosts {
		if in := s.instance(up, hm, h, req); in != nil {
			resp.Instances = append(resp.Instances, in)
		}
	}
	return resp, nil
}

// instance is one host as the request asks for it, nil when it does not host the store. What only a node itself knows is
// there for this node alone.
func (s *metadataServer) instance(up *running, hm *metadata.HostMap, h metadata.Host, req *iqv1.ListInstancesRequest) *iqv1.Instance {
	in := &iqv1.Instance{Node: string(h.Node), Address: h.Address, Rack: h.Rack, Alive: true, Generation: int64(hm.Generation)}
	in.StandbyPartitions, in.StandbyStores = s.sourcesOf(up, h.Standby, req.GetStore())
	if !req.GetStandbysOnly() {
		in.ActivePartitions, in.ActiveStores = s.sourcesOf(up, h.Active, req.GetStore())
	}
	if req.GetStore() != "" && len(in.GetActiveStores())+len(in.GetStandbyStores()) == 0 {
		return nil
	}
	if string(h.Node) != s.n.cfg.NodeID {
		return in
	}
	in.Incarnation, in.Sequence = int64(s.n.incarnation), s.n.sequence.Load()
	in.Interval, in.LastHeard = durationpb.New(s.n.cfg.ReportInterval), durationpb.New(0)
	in.InFlight, in.Draining = s.n.inFlight.Load(), s.n.drain.begun()
	in.Misplaced, in.Dropped = misplacedProto(up.tasks.met.misplaced()), droppedProto(up.tasks.met.dropped())
	now := time.Now()
	for _, r := range up.replicas.list() {
		rep := r.report(now)
		if req.GetStore() != "" && rep.Store != req.GetStore() || req.GetStandbysOnly() && rep.Role == metadata.RoleActive {
			continue
		}
		in.Replicas = append(in.Replicas, statusProto(s.n.cfg.NodeID, s.n.address, rep))
		if rep.Input != nil {
			in.Inputs = append(in.Inputs, &iqv1.ReplicaInput{Store: rep.Store, Partition: rep.Partition.Partition, InputPosition: positionProto(rep.Input)})
		}
	}
	return in
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

// knows refuses a store that the application does not have; the empty name stands for all.
func (up *running) knows(name string) error {
	if _, ok := up.tasks.stores[name]; ok || name == "" {
		return nil
	}
	return up.tasks.unknownStore(name)
}

// ListStores implements MetadataService.
func (s *metadataServer) ListStores(context.Context, *iqv1.ListStoresRequest) (*iqv1.ListStoresResponse, error) {
	up := s.n.up.Load()
	if up == nil {
		return nil, iqerr.Status(s.n.notUp())
	}
	return &iqv1.ListStoresResponse{Stores: up.storeProtos("")}, nil
}

// storeProtos describes one store, or every one, by name, when name is empty.
func (up *running) storeProtos(name string) []*iqv1.StoreInfo {
	var list []*iqv1.StoreInfo
	for _, info := range up.storeInfos() {
		if name == "" || name == info.Name {
			list = append(list, storeProto(info))
		}
	}
	return list
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
			WindowSize: spec.WindowSize, Retention: spec.Retention,
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
	if req.GetStore() == "" {
		return nil, iqerr.Status(iqerr.Invalid("store", "", "must be given"))
	}
	up, hm, err := s.hosted(req.GetStore())
	if err == nil {
		err = up.countIsRight(req.GetStore())
	}
	var in []int32
	if err == nil {
		in, err = s.n.partitionsOf(up, req.GetStore(), req.GetKey(), req.GetPartitioner())
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

// ListLags implements MetadataService: the lags of this node's own replicas. Before the first assignment they are those
// of the stores that an earlier run left, if there are any.
func (s *metadataServer) ListLags(_ context.Context, req *iqv1.ListLagsRequest) (*iqv1.ListLagsResponse, error) {
	up := s.n.up.Load()
	if up == nil {
		return nil, iqerr.Status(s.n.notUp())
	}
	if err := up.knows(req.GetStore()); err != nil {
		return nil, iqerr.Status(err)
	}
	resp := &iqv1.ListLagsResponse{}
	now := time.Now()
	for _, r := range up.replicas.list() {
		if req.GetStore() == "" || r.id.Store == req.GetStore() {
			resp.Replicas = append(resp.Replicas, statusProto(s.n.cfg.NodeID, s.n.address, r.report(now)))
		}
	}
	if len(resp.GetReplicas()) == 0 && up.hosts.Load() == nil {
		return nil, iqerr.Status(s.n.notAssigned())
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
	p, err := policyOf(get.GetPolicy(), s.n.cfg.DefaultPolicy)
	if err != nil {
		return nil, iqerr.Status(err)
	}
	resp := &iqv1.ExplainResponse{}
	ids, err := s.n.locate(get)
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
	up := s.n.up.Load()
	d := &iqv1.Decision{Store: get.GetStore()}
	if len(ids) == 0 {
		return d, nil
	}
	d.Partition = ids[0].Partition
	var refused error
	now, rank := time.Now(), int32(0)
	for _, id := range ids {
		r := up.replicas.get(id)
		if r == nil {
			refused = cmp.Or(refused, s.n.notHosted(up, id))
			continue
		}
		rep := r.report(now)
		reason, why := judge(p, facts{
			partition: id.Partition,
			standing:  *r.now.Load(), lag: rep.Lag, input: rep.Input, leaseValid: rep.LeaseValid, sampleMaxAge: s.n.cfg.LagSampleMaxAge,
		})
		c := candidate(statusProto(s.n.cfg.NodeID, s.n.address, rep), reason, why)
		if reason != iqv1.Reason_REASON_UNSPECIFIED {
			refused = cmp.Or(refused, refuse(p, id, c, get.GetPolicy().GetAtLeast()))
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
