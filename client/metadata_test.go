package client_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// ListInstances and the methods below answer with what they were asked, so that a test sees both ways.
func (*router) ListInstances(_ context.Context, req *iqv1.ListInstancesRequest) (*iqv1.ListInstancesResponse, error) {
	if req.GetStandbysOnly() {
		return &iqv1.ListInstancesResponse{Instances: []*iqv1.Instance{{Node: "b", StandbyStores: []string{req.GetStore()}}}}, nil
	}
	return &iqv1.ListInstancesResponse{Instances: []*iqv1.Instance{{Node: "a", ActiveStores: []string{req.GetStore()}}}}, nil
}

func (r *router) ListStores(context.Context, *iqv1.ListStoresRequest) (*iqv1.ListStoresResponse, error) {
	r.mu.Lock()
	r.mu.listed++
	r.mu.Unlock()
	if r.stores != nil {
		return &iqv1.ListStoresResponse{Stores: r.stores}, nil
	}
	return &iqv1.ListStoresResponse{Stores: []*iqv1.StoreInfo{{Name: "orders", Partitions: 3}}}, nil
}

func (*router) QueryKey(_ context.Context, req *iqv1.QueryKeyRequest) (*iqv1.QueryKeyResponse, error) {
	return &iqv1.QueryKeyResponse{Partitions: []*iqv1.KeyPartition{{
		Partition: int32(len(req.GetKey())), Active: &iqv1.ReplicaStatus{Node: "a" + req.GetPartitioner(), Store: req.GetStore()},
	}}}, nil
}

func (*router) ListLags(_ context.Context, req *iqv1.ListLagsRequest) (*iqv1.ListLagsResponse, error) {
	if req.GetStore() == "nosuch" {
		return nil, iqerr.Status(&iqerr.StoreUnknownError{Store: "nosuch", Known: []string{"orders"}})
	}
	return &iqv1.ListLagsResponse{Replicas: []*iqv1.ReplicaStatus{{Node: "a", Store: req.GetStore()}}}, nil
}

func (*router) Explain(_ context.Context, req *iqv1.ExplainRequest) (*iqv1.ExplainResponse, error) {
	return &iqv1.ExplainResponse{
		Decision: &iqv1.Decision{Store: req.GetGet().GetStore(), Partition: req.GetGet().GetPartition()},
		Error:    req.GetGet().GetPolicy().GetMode().String(), Reason: iqv1.Reason_REASON_STALE,
	}, nil
}

func TestMetadataIsAskedOfTheNextRouterWhenOneIsDown(t *testing.T) {
	c := newNetwork(t, map[string]*router{"r1": nil, "r2": {}}).client(t, "r1 r2")
	ctx := t.Context()
	instances, err := c.Instances(ctx, "orders")
	if err != nil || len(instances) != 1 || instances[0].GetActiveStores()[0] != "orders" {
		t.Errorf("instances %v, %v", instances, err)
	}
	stores, err := c.Stores(ctx)
	if err != nil || len(stores) != 1 || stores[0].GetPartitions() != 3 {
		t.Errorf("stores %v, %v", stores, err)
	}
	parts, err := c.QueryKey(ctx, "orders", []byte("four"))
	if err != nil || len(parts) != 1 || parts[0].GetPartition() != 4 || parts[0].GetActive().GetStore() != "orders" {
		t.Errorf("key %v, %v", parts, err)
	}
	if parts, err := c.QueryKeyBy(ctx, "orders", []byte("four"), "crc32"); err != nil || parts[0].GetActive().GetNode() != "acrc32" {
		t.Errorf("key by crc32 %v, %v", parts, err)
	}
	standbys, err := c.Standbys(ctx, "orders")
	if err != nil || len(standbys) != 1 || standbys[0].GetStandbyStores()[0] != "orders" {
		t.Errorf("standbys %v, %v", standbys, err)
	}
	lags, err := c.Lags(ctx, "orders")
	if err != nil || len(lags) != 1 || lags[0].GetStore() != "orders" {
		t.Errorf("lags %v, %v", lags, err)
	}
	got, err := c.Explain(ctx, "orders", []byte("k"), client.Strong(), client.Partition(2))
	want := &iqv1.ExplainResponse{Decision: &iqv1.Decision{Store: "orders", Partition: 2}, Error: "MODE_STRONG", Reason: iqv1.Reason_REASON_STALE}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("explain %v, %v", got, err)
	}
}

func TestMetadataErrorsKeepTheirNumbers(t *testing.T) {
	c := newNetwork(t, map[string]*router{"r1": {}}).client(t, "r1")
	_, err := c.Lags(t.Context(), "nosuch")
	var unknown *iqerr.StoreUnknownError
	if !errors.As(err, &unknown) || unknown.Known[0] != "orders" {
		t.Errorf("got %v", err)
	}
}
