package router

import (
	"context"
	"strings"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// metadataService answers from the newest view (KIP-535).
type metadataService struct {
	iqv1.UnimplementedMetadataServiceServer
	router *Router
}

// ListInstances lists every node, or those that host a store, or host it otherwise than as its active.
func (s *metadataService) ListInstances(ctx context.Context, m *iqv1.ListInstancesRequest) (*iqv1.ListInstancesResponse, error) {
	list, err := instances(s.router.View(), m, time.Now())
	if err != nil {
		return nil, s.router.status(ctx, err)
	}
	return &iqv1.ListInstancesResponse{Instances: instancesToProto(list, m.GetStore())}, nil
}

func instances(v *metadata.View, m *iqv1.ListInstancesRequest, now time.Time) ([]metadata.Instance, error) {
	if m.GetStore() == "" {
		if m.GetStandbysOnly() {
			return nil, iqerr.Invalid("standbys_only", true, "needs a store")
		}
		return v.Instances(now), nil
	}
	list := v.InstancesForStore
	if m.GetStandbysOnly() {
		list = v.StandbysForStore
	}
	found, err := list(m.GetStore(), now)
	if err != nil {
		return nil, routing.LookupError(err)
	}
	return found, nil
}

// ListStores lists every store that nodes have told of.
func (s *metadataService) ListStores(context.Context, *iqv1.ListStoresRequest) (*iqv1.ListStoresResponse, error) {
	return &iqv1.ListStoresResponse{Stores: storesToProto(s.router.View().Stores())}, nil
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
	partitions, err := r.partitionsOf(v, m)
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

// partitionsOf finds a key's partitions by the partitioner that the request names, or by the store's.
func (r *Router) partitionsOf(v *metadata.View, m *iqv1.QueryKeyRequest) ([]int32, error) {
	if m.GetPartitioner() == "" {
		return routing.Locate(v, r.config.Partitioners, m.GetStore(), m.GetKey(), routing.NoPartition)
	}
	p, err := r.config.Partitioners.Get(m.GetPartitioner())
	if err != nil {
		known := strings.Join(r.config.Partitioners.Names(), ", ")
		return nil, iqerr.Invalid("partitioner", m.GetPartitioner(), "is not a known partitioner; known are "+known)
	}
	if _, err := routing.Locate(v, r.config.Partitioners, m.GetStore(), nil, 0); err != nil { // that the store is in order
		return nil, err
	}
	info, err := v.Store(m.GetStore())
	if err != nil {
		return nil, routing.LookupError(err)
	}
	partitions, err := partitioner.Lookup(p, m.GetKey(), info.Partitions)
	if err != nil {
		return nil, iqerr.Invalid("key", m.GetKey(), err.Error())
	}
	return partitions, nil
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
