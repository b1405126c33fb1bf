package client

import (
	"context"
	"errors"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Instances lists the instances that host a store, with their partitions, stores and lags; all instances when store is
// empty (Kafka Streams: streamsMetadataForStore and metadataForAllStreamsClients). A node asked directly answers from its
// newest host map, and with its own lags only.
func (c *Client) Instances(ctx context.Context, store string) ([]*iqv1.Instance, error) {
	res, _, err := ask(ctx, c, (*target).instances, &iqv1.ListInstancesRequest{Store: store}, 0)
	return res.GetInstances(), err
}

func (t *target) instances(ctx context.Context, req *iqv1.ListInstancesRequest) (*iqv1.ListInstancesResponse, error) {
	return t.metadata.ListInstances(ctx, req)
}

// Standbys lists the instances that host a store otherwise than as its active, with what they hold as standbys (KIP-535:
// allStandbyMetadataForStore). The store is required.
func (c *Client) Standbys(ctx context.Context, store string) ([]*iqv1.Instance, error) {
	res, _, err := ask(ctx, c, (*target).instances, &iqv1.ListInstancesRequest{Store: store, StandbysOnly: true}, 0)
	return res.GetInstances(), err
}

// Stores lists every store known, with its partitions, serdes and partitioner.
func (c *Client) Stores(ctx context.Context) ([]*iqv1.StoreInfo, error) {
	res, _, err := ask(ctx, c, (*target).stores, &iqv1.ListStoresRequest{}, 0)
	return res.GetStores(), err
}

func (t *target) stores(ctx context.Context, req *iqv1.ListStoresRequest) (*iqv1.ListStoresResponse, error) {
	return t.metadata.ListStores(ctx, req)
}

// QueryKey gives the partitions where a key may be, each with its active and its standbys, the freshest first (Kafka
// Streams: queryMetadataForKey).
func (c *Client) QueryKey(ctx context.Context, store string, key []byte) ([]*iqv1.KeyPartition, error) {
	res, _, err := ask(ctx, c, (*target).queryKey, &iqv1.QueryKeyRequest{Store: store, Key: key}, 0)
	return res.GetPartitions(), err
}

// QueryKeyBy is QueryKey by a partitioner that the server knows by name, in place of the store's (Kafka Streams:
// queryMetadataForKey with a StreamPartitioner).
func (c *Client) QueryKeyBy(ctx context.Context, store string, key []byte, partitioner string) ([]*iqv1.KeyPartition, error) {
	res, _, err := ask(ctx, c, (*target).queryKey, &iqv1.QueryKeyRequest{Store: store, Key: key, Partitioner: partitioner}, 0)
	return res.GetPartitions(), err
}

func (t *target) queryKey(ctx context.Context, req *iqv1.QueryKeyRequest) (*iqv1.QueryKeyResponse, error) {
	return t.metadata.QueryKey(ctx, req)
}

// Lags gives the replicas of a store and how far behind each is; of all stores when store is empty (Kafka Streams:
// allLocalStorePartitionLags). A node asked directly tells of its own replicas.
func (c *Client) Lags(ctx context.Context, store string) ([]*iqv1.ReplicaStatus, error) {
	res, _, err := ask(ctx, c, (*target).lags, &iqv1.ListLagsRequest{Store: store}, 0)
	return res.GetReplicas(), err
}

func (t *target) lags(ctx context.Context, req *iqv1.ListLagsRequest) (*iqv1.ListLagsResponse, error) {
	return t.metadata.ListLags(ctx, req)
}

// WatchMetadata gives what Instances and Stores tell, and then each change of it, as the messages of MetadataService's
// WatchMetadata; only of a store and the nodes that host it unless store is empty. lagInterval is the shortest time between two
// messages that tell of lags alone: 0 for the server's 100 ms, else at least 10 ms.
//
// When a router breaks off or falls silent the next one is followed, whose first message is a snapshot: what was told before is
// void then. The loop ends with an error when no target has told anything for MaxResume, or none from the beginning, and when
// its context ends.
func (c *Client) WatchMetadata(ctx context.Context, store string, lagInterval time.Duration) iter.Seq2[*iqv1.WatchMetadataResponse, error] {
	req := &iqv1.WatchMetadataRequest{Store: store}
	if lagInterval != 0 {
		req.LagInterval = durationpb.New(lagInterval)
	}
	return func(yield func(*iqv1.WatchMetadataResponse, error) bool) {
		again := resumption{tries: c.newTries()}
		for {
			started := time.Now()
			worked, err := followMetadata(ctx, again.tries, req, yield)
			if errors.Is(err, errTaken) {
				return
			}
			if err := again.after(ctx, worked, err, time.Since(started)); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

func followMetadata(ctx context.Context, tries *tries, req *iqv1.WatchMetadataRequest, yield func(*iqv1.WatchMetadataResponse, error) bool) (worked bool, err error) {
	ctx, l := tries.listen(ctx, 0)
	defer l.close()
	stream, err := tries.target().metadata.WatchMetadata(ctx, req)
	if err != nil {
		return false, silent(ctx, err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return worked, silent(ctx, err)
		}
		l.heard()
		tries.progressed()
		worked = true
		if !yield(m, nil) {
			return worked, errTaken
		}
		l.listen()
	}
}

// Explain says to which replicas a Get with the same arguments would be sent, in order, and why each was chosen or
// refused. Nothing is read. A read that nobody may answer is no error here: the response has its reason and text.
func (c *Client) Explain(ctx context.Context, store string, key []byte, opts ...ReadOption) (*iqv1.ExplainResponse, error) {
	r, err := c.read(callGet, nil, store, key, opts)
	if err != nil {
		return nil, err
	}
	res, _, err := ask(ctx, c, (*target).explain, &iqv1.ExplainRequest{Get: &r.get}, 0)
	return res, err
}

func (t *target) explain(ctx context.Context, req *iqv1.ExplainRequest) (*iqv1.ExplainResponse, error) {
	return t.metadata.Explain(ctx, req)
}
