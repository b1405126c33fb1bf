package router

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// metadataService answers from the newest view (KIP-535).
type metadataService struct {
	iqv1.UnimplementedMetadataServiceServer
	router *Router
}

// ListInstances lists every node, or those that host a store.
func (s *metadataService) ListInstances(ctx context.Context, m *iqv1.ListInstancesRequest) (*iqv1.ListInstancesResponse, error) {
	v, now := s.router.View(), time.Now()
	list := v.Instances(now)
	if m.GetStore() != "" {
		var err error
		if list, err = v.InstancesForStore(m.GetStore(), now); err != nil {
			return nil, s.router.status(ctx, routing.LookupError(err))
		}
	}
	resp := &iqv1.ListInstancesResponse{}
	for i := range list {
		resp.Instances = append(resp.Instances, instanceToProto(&list[i]))
	}
	return resp, nil
}

// ListStores lists every store that nodes have told of.
func (s *metadataService) ListStores(context.Context, *iqv1.ListStoresRequest) (*iqv1.ListStoresResponse, error) {
	resp := &iqv1.ListStoresResponse{}
	for _, info := range s.router.View().Stores() {
		resp.Stores = append(resp.Stores, routing.StoreToProto(info))
	}
	return resp, nil
}

// QueryKey says in which partitions a key may be and who holds them.
func (s *metadataService) QueryKey(ctx context.Context, m *iqv1.QueryKeyRequest) (*iqv1.QueryKeyResponse, error) {
	resp, err := s.router.queryKey(m)
	if err != nil {
		return nil, s.router.status(ctx, err)
	}
	return resp, nil
}

func (r *Router) queryKey(m *iqv1.QueryKeyRequest) (*iqv1.QueryKeyResponse, error) {
	if m.GetStore() == "" {
		return nil, iqerr.Invalid("store", "", "must be a store's name")
	}
	v, now := r.View(), time.Now()
	partitions, err := routing.Locate(v, r.config.Partitioners, m.GetStore(), m.GetKey(), routing.NoPartition)
	if err != nil {
		return nil, err
	}
	resp := &iqv1.QueryKeyResponse{}
	for _, p := range partitions {
		k, err := v.QueryKey(metadata.Partition{Store: m.GetStore(), Partition: p}, now)
		if err != nil {
			return nil, routing.LookupError(err)
		}
		part := &iqv1.KeyPartition{Partition: p}
		if k.Active != nil {
			part.Active = routing.StatusToProto(k.Active)
		}
		part.Standbys = statusesToProto(k.Standbys)
		resp.Partitions = append(resp.Partitions, part)
	}
	return resp, nil
}

// ListLags lists the live replicas and their lags.
func (s *metadataService) ListLags(ctx context.Context, m *iqv1.ListLagsRequest) (*iqv1.ListLagsResponse, error) {
	lags, err := s.router.View().Lags(m.GetStore(), time.Now())
	if err != nil {
		return nil, s.router.status(ctx, routing.LookupError(err))
	}
	return &iqv1.ListLagsResponse{Replicas: statusesToProto(lags)}, nil
}

// Explain says whom a read would be sent to, and why. A refusal is part of the answer; only a wrong request is an error.
func (s *metadataService) Explain(ctx context.Context, m *iqv1.ExplainRequest) (*iqv1.ExplainResponse, error) {
	resp, err := s.router.explain(m.GetGet())
	if err != nil {
		return nil, s.router.status(ctx, err)
	}
	return resp, nil
}

func (r *Router) explain(m *iqv1.GetRequest) (*iqv1.ExplainResponse, error) {
	if m == nil {
		return nil, iqerr.Invalid("get", nil, "must be the read to explain")
	}
	v := r.View()
	rd, err := readFromProto(m, r.config.DefaultPolicy, v.Application())
	if err != nil {
		return nil, err
	}
	partitions, err := routing.Locate(v, r.config.Partitioners, m.GetStore(), m.GetKey(), rd.partition)
	if iqerr.ReasonOf(err) == iqv1.Reason_REASON_INVALID {
		return nil, err
	}
	resp := &iqv1.ExplainResponse{}
	if err == nil {
		var p routing.Plan
		p, err = routing.MakePlan(v, r.query(&rd), partitions, time.Now())
		resp.Decision = p.ToProto()
	}
	if err != nil {
		resp.Error, resp.Reason = err.Error(), iqerr.ReasonOf(err)
	}
	return resp, nil
}

func instanceToProto(in *metadata.Instance) *iqv1.Instance {
	return &iqv1.Instance{
		Node: string(in.ID), Address: in.Address, Rack: in.Rack, Alive: in.Alive, Suspect: in.Suspect,
		Incarnation: int64(in.Incarnation), Generation: int64(in.Generation),
		ActivePartitions: topicPartitionsToProto(in.ActivePartitions), StandbyPartitions: topicPartitionsToProto(in.StandbyPartitions),
		ActiveStores: in.ActiveStores, StandbyStores: in.StandbyStores,
		Replicas: statusesToProto(in.Replicas), LastHeard: durationpb.New(in.LastHeard),
	}
}

func topicPartitionsToProto(list []metadata.TopicPartition) []*iqv1.TopicPartition {
	m := make([]*iqv1.TopicPartition, 0, len(list))
	for _, tp := range list {
		m = append(m, &iqv1.TopicPartition{Topic: tp.Topic, Partition: tp.Partition})
	}
	return m
}

func statusesToProto(list []metadata.ReplicaStatus) []*iqv1.ReplicaStatus {
	m := make([]*iqv1.ReplicaStatus, 0, len(list))
	for i := range list {
		m = append(m, routing.StatusToProto(&list[i]))
	}
	return m
}
