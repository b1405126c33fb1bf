package gateway

import (
	"cmp"
	"slices"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

type storesAnswer struct {
	Stores []shape.Store `json:"stores" doc:"by name"`
}

type nodesAnswer struct {
	Nodes []shape.Node `json:"nodes" doc:"by id"`
}

type lagAnswer struct {
	Replicas []*shape.Replica `json:"replicas" doc:"by store and partition, the active first"`
}

type keyAnswer struct {
	Store      string               `json:"store"`
	Key        any                  `json:"key"`
	Partitions []shape.KeyPartition `json:"partitions" doc:"one, unless the partitioner names several, or none"`
}

type explainAnswer struct {
	Store      string            `json:"store"`
	Key        any               `json:"key"`
	Partition  int32             `json:"partition"`
	Candidates []shape.Candidate `json:"candidates" doc:"in the order of asking, then those that were refused"`
	Reason     string            `json:"reason,omitempty" doc:"why no replica may answer"`
	Error      string            `json:"error,omitempty" doc:"the same in words"`
}

func (c *call) stores() error {
	resp, err := c.metadata.ListStores(c, &iqv1.ListStoresRequest{})
	if err != nil {
		return err
	}
	slices.SortStableFunc(resp.Stores, func(a, b *iqv1.StoreInfo) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return c.reply(storesAnswer{shape.StoresOf(resp.GetStores())})
}

func (c *call) oneStore() error {
	info, err := c.find()
	if err != nil {
		return err
	}
	return c.reply(shape.StoreOf(info))
}

func (c *call) nodes() error {
	resp, err := c.metadata.ListInstances(c, &iqv1.ListInstancesRequest{Store: c.store, StandbysOnly: c.standbysOnly})
	if err != nil {
		return err
	}
	slices.SortStableFunc(resp.Instances, func(a, b *iqv1.Instance) int { return cmp.Compare(a.GetNode(), b.GetNode()) })
	for _, in := range resp.GetInstances() {
		slices.SortStableFunc(in.Replicas, shape.ByPartition)
	}
	return c.reply(nodesAnswer{shape.NodesOf(resp.GetInstances())})
}

func (c *call) lag() error {
	resp, err := c.metadata.ListLags(c, &iqv1.ListLagsRequest{Store: c.store})
	if err != nil {
		return err
	}
	slices.SortStableFunc(resp.Replicas, shape.ByPartition)
	return c.reply(lagAnswer{shape.ReplicasOf(resp.GetReplicas())})
}

// parsedKey is the key of the path.
func (c *call) parsedKey() (f formats, key []byte, err error) {
	if f, err = c.formats(); err == nil {
		key, err = f.parseKey("key", c.key)
	}
	return f, key, err
}

func (c *call) keyMetadata() error {
	f, key, err := c.parsedKey()
	if err != nil {
		return err
	}
	resp, err := c.metadata.QueryKey(c, &iqv1.QueryKeyRequest{Store: c.store, Key: key, Partitioner: c.partitioner})
	if err != nil {
		return err
	}
	a := keyAnswer{Store: c.store, Partitions: shape.KeyPartitionsOf(resp.GetPartitions())}
	a.Key, _ = f.key.JSON(key)
	return c.reply(a)
}

func (c *call) explanation() error {
	f, key, err := c.parsedKey()
	if err != nil {
		return err
	}
	m := &iqv1.GetRequest{Store: c.store, Key: key, Policy: c.policy}
	if len(c.partitions) > 0 {
		m.Partition = &c.partitions[0]
	}
	resp, err := c.metadata.Explain(c, &iqv1.ExplainRequest{Get: m})
	if err != nil {
		return err
	}
	a := explainAnswer{
		Store: c.store, Partition: resp.GetDecision().GetPartition(), Candidates: shape.CandidatesOf(resp.GetDecision().GetCandidates()), Error: resp.GetError(),
	}
	if resp.GetReason() != iqv1.Reason_REASON_UNSPECIFIED {
		a.Reason = iqerr.Name(resp.GetReason())
	}
	a.Key, _ = f.key.JSON(key)
	return c.reply(a)
}

// wantKind refuses a store of another kind than the path is for.
func (c *call) wantKind(info *iqv1.StoreInfo, kind string) error {
	have := shape.StoreOf(info).Kind
	if have == kind {
		return nil
	}
	return iqerr.Invalid("store", c.store, "is a "+have+" store; this path is for "+kind+" stores")
}
