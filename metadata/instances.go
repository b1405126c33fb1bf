package metadata

import (
	"slices"
	"strings"
	"time"
)

// ReplicaStatus is a replica as it stands at one moment, for whoever reads it.
type ReplicaStatus struct {
	Hosted
	// Lag is how far behind it is at that moment, see PartitionView.LagAt.
	Lag LagInfo
}

// Instance is Kafka Streams' StreamsMetadata with the standbys' lags: one node and what it hosts. The input position of
// a replica is with the replica, the counts of misplaced and dropped records are with the node.
type Instance struct {
	Node
	// LastHeard is how long ago its newest report came.
	LastHeard time.Duration
	// ActivePartitions and StandbyPartitions are the source topics' partitions that it is active or standby for.
	ActivePartitions, StandbyPartitions []TopicPartition
	ActiveStores, StandbyStores         []string
	// Replicas is what it hosts. Empty for a dead node: what it last told of lags is worth nothing (S15).
	Replicas []ReplicaStatus
}

// KeyMetadata is Kafka Streams' KeyQueryMetadata for one partition.
type KeyMetadata struct {
	Partition Partition
	// Active is nil while nobody alive is active.
	Active *ReplicaStatus
	// Standbys are the other live replicas, the freshest first.
	Standbys []ReplicaStatus
}

// Instances lists every node (Kafka Streams' metadataForAllStreamsClients), by id.
func (v *View) Instances(now time.Time) []Instance {
	return v.instances(now, anyReplica, func(NodeID, bool) bool { return true })
}

// InstancesForStore lists the nodes that host the store in any role (streamsMetadataForStore). The error is that of
// Store.
func (v *View) InstancesForStore(store string, now time.Time) ([]Instance, error) {
	if _, err := v.lookup(store); err != nil {
		return nil, err
	}
	return v.instances(now, func(h Hosted) bool { return h.Store == store }, hosting), nil
}

// StandbysForStore lists the nodes that host the store otherwise than as its active. The error is that of Store.
func (v *View) StandbysForStore(store string, now time.Time) ([]Instance, error) {
	if _, err := v.lookup(store); err != nil {
		return nil, err
	}
	return v.instances(now, func(h Hosted) bool { return h.Store == store && !h.Active }, hosting), nil
}

// Lags lists the live replicas of a store, or of all when store is empty, with their lags (allLocalStorePartitionLags of
// all nodes), by store, partition and freshness. The error is that of Store.
func (v *View) Lags(store string, now time.Time) ([]ReplicaStatus, error) {
	if store != "" {
		if _, err := v.lookup(store); err != nil {
			return nil, err
		}
	}
	var lags []ReplicaStatus
	for p := range v.partitions {
		for i := range p.Len() {
			if h := p.At(i); h.Node.Alive && (store == "" || h.Store == store) {
				lags = append(lags, ReplicaStatus{Hosted: h, Lag: p.LagAt(h, now)})
			}
		}
	}
	return lags, nil
}

// QueryKey says who holds a partition (queryMetadataForKey, for one of the key's partitions). The error is that of
// Partition.
func (v *View) QueryKey(p Partition, now time.Time) (KeyMetadata, error) {
	pv, err := v.Partition(p)
	if err != nil {
		return KeyMetadata{}, err
	}
	k := KeyMetadata{Partition: p}
	for i := range pv.Len() {
		h := pv.At(i)
		s := ReplicaStatus{Hosted: h, Lag: pv.LagAt(h, now)}
		switch {
		case !h.Node.Alive:
		case h.Active:
			k.Active = &s
		default:
			k.Standbys = append(k.Standbys, s)
		}
	}
	return k, nil
}

// partitions yields every partition that anybody has held, by store and number.
func (v *View) partitions(yield func(PartitionView) bool) {
	for _, name := range v.storeNames() {
		s := v.stores[name]
		for i := range s.parts {
			p := Partition{Store: name, Partition: int32(i)}
			if !yield(PartitionView{Partition: p, v: v, p: &s.parts[i]}) {
				return
			}
		}
	}
}

func (v *View) storeNames() []string {
	names := make([]string, 0, len(v.stores))
	for name := range v.stores {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func anyReplica(Hosted) bool { return true }

func hosting(_ NodeID, hosts bool) bool { return hosts }

// instances lists the nodes that listed says, which is told whether a node hosts any replica that is wanted, each with
// its wanted replicas.
func (v *View) instances(now time.Time, want func(Hosted) bool, listed func(id NodeID, hosts bool) bool) []Instance {
	byNode := map[NodeID]*Instance{}
	for p := range v.partitions {
		for i := range p.Len() {
			h := p.At(i)
			if !want(h) {
				continue
			}
			in := byNode[h.Node.ID]
			if in == nil {
				in = &Instance{}
				byNode[h.Node.ID] = in
			}
			in.add(v, p, h, now)
		}
	}
	var list []Instance
	for _, n := range v.Nodes() {
		in := byNode[n.ID]
		if !listed(n.ID, in != nil) {
			continue
		}
		if in == nil {
			in = &Instance{}
		}
		in.Node, in.LastHeard = *n, max(0, now.Sub(n.Received))
		in.sort()
		list = append(list, *in)
	}
	return list
}

// add counts one replica in. Of a dead node only the names of what it held are kept.
func (in *Instance) add(v *View, p PartitionView, h Hosted, now time.Time) {
	stores, partitions := &in.StandbyStores, &in.StandbyPartitions
	if h.Active || (!h.Node.Alive && h.Role == RoleActive) {
		stores, partitions = &in.ActiveStores, &in.ActivePartitions
	}
	*stores = append(*stores, h.Store)
	for _, topic := range v.stores[h.Store].info.SourceTopics {
		*partitions = append(*partitions, TopicPartition{Topic: topic, Partition: h.Partition.Partition})
	}
	if h.Node.Alive {
		in.Replicas = append(in.Replicas, ReplicaStatus{Hosted: h, Lag: p.LagAt(h, now)})
	}
}

// sort puts each list in order and each entry once: two stores of one task have the same source partition.
func (in *Instance) sort() {
	for _, stores := range []*[]string{&in.ActiveStores, &in.StandbyStores} {
		slices.SortFunc(*stores, strings.Compare)
		*stores = slices.Compact(*stores)
	}
	for _, partitions := range []*[]TopicPartition{&in.ActivePartitions, &in.StandbyPartitions} {
		slices.SortFunc(*partitions, TopicPartition.Compare)
		*partitions = slices.Compact(*partitions)
	}
}
