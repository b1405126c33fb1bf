package shape

import (
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Store describes a store.
type Store struct {
	Name             string   `json:"name"`
	Kind             string   `json:"kind" enum:"keyvalue,window,session,versioned"`
	Partitions       int32    `json:"partitions"`
	ActualPartitions int32    `json:"actual_partitions" doc:"the count that the source topics have now; reads are refused when it differs"`
	KeySerde         string   `json:"key_serde"`
	ValueSerde       string   `json:"value_serde"`
	Partitioner      string   `json:"partitioner"`
	Changelog        string   `json:"changelog"`
	SourceTopics     []string `json:"source_topics"`
	WindowSizeMs     *float64 `json:"window_size_ms" doc:"of a window store"`
	RetentionMs      *float64 `json:"retention_ms" doc:"how long, by stream time, windows, sessions and superseded versions are kept"`
	Followed         bool     `json:"followed" doc:"the changelog is that of an application that runs elsewhere: no node is ever the active"`
}

// StoreOf is one store.
func StoreOf(s *iqv1.StoreInfo) Store {
	kind := s.GetKind()
	if kind == "" {
		kind = "keyvalue"
	}
	return Store{
		Name: s.GetName(), Kind: kind, Partitions: s.GetPartitions(), ActualPartitions: s.GetActualPartitions(),
		KeySerde: s.GetKeySerde(), ValueSerde: s.GetValueSerde(), Partitioner: s.GetPartitioner(), Changelog: s.GetChangelog(),
		SourceTopics: append([]string{}, s.GetSourceTopics()...), WindowSizeMs: Millis(s.GetWindowSize()), RetentionMs: Millis(s.GetRetention()),
		Followed: s.GetFollowed(),
	}
}

// StoresOf keeps the order.
func StoresOf(list []*iqv1.StoreInfo) []Store { return each(list, StoreOf) }

// Member is a node as a router sees it, without what it holds.
type Member struct {
	Node        string   `json:"node" doc:"the node's id"`
	Address     string   `json:"address"`
	Rack        string   `json:"rack"`
	State       string   `json:"state" enum:"alive,suspect,dead"`
	Draining    bool     `json:"draining" doc:"it hands its tasks over before it leaves"`
	Incarnation int64    `json:"incarnation" doc:"grows with each start of the same node id"`
	Generation  int64    `json:"generation"`
	LastHeardMs *float64 `json:"last_heard_ms" doc:"time since its last heartbeat"`
}

// Holdings are what a node holds.
type Holdings struct {
	ActiveStores      []string         `json:"active_stores"`
	StandbyStores     []string         `json:"standby_stores"`
	ActivePartitions  []TopicPartition `json:"active_partitions"`
	StandbyPartitions []TopicPartition `json:"standby_partitions"`
	Replicas          []*Replica       `json:"replicas"`
}

// Node is one node with what it holds.
type Node struct {
	Member
	InFlight int32 `json:"in_flight" doc:"queries that it was answering"`
	Holdings
}

// The states of a node.
const (
	Alive   = "alive"
	Suspect = "suspect"
	Dead    = "dead"
)

// StateOf is a node's state in a word.
func StateOf(i *iqv1.Instance) string {
	switch {
	case !i.GetAlive():
		return Dead
	case i.GetSuspect():
		return Suspect
	}
	return Alive
}

// MemberOf is one node.
func MemberOf(i *iqv1.Instance) Member {
	return Member{
		Node: i.GetNode(), Address: i.GetAddress(), Rack: i.GetRack(), State: StateOf(i), Draining: i.GetDraining(),
		Incarnation: i.GetIncarnation(), Generation: i.GetGeneration(), LastHeardMs: Millis(i.GetLastHeard()),
	}
}

// HoldingsOf is what one node holds.
func HoldingsOf(i *iqv1.Instance) Holdings {
	return Holdings{
		ActiveStores: append([]string{}, i.GetActiveStores()...), StandbyStores: append([]string{}, i.GetStandbyStores()...),
		ActivePartitions: each(i.GetActivePartitions(), topicPartitionOf), StandbyPartitions: each(i.GetStandbyPartitions(), topicPartitionOf),
		Replicas: ReplicasOf(i.GetReplicas()),
	}
}

// NodeOf is one node.
func NodeOf(i *iqv1.Instance) Node {
	return Node{Member: MemberOf(i), InFlight: i.GetInFlight(), Holdings: HoldingsOf(i)}
}

// NodesOf keeps the order.
func NodesOf(list []*iqv1.Instance) []Node { return each(list, NodeOf) }

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

func topicPartitionOf(p *iqv1.TopicPartition) TopicPartition {
	return TopicPartition{Topic: p.GetTopic(), Partition: p.GetPartition()}
}

// KeyPartition is a partition where a key may be, and who holds it.
type KeyPartition struct {
	Partition int32      `json:"partition"`
	Active    *Replica   `json:"active" doc:"null while nobody is active"`
	Standbys  []*Replica `json:"standbys" doc:"the freshest first"`
}

// KeyPartitionsOf keeps the order.
func KeyPartitionsOf(list []*iqv1.KeyPartition) []KeyPartition {
	return each(list, func(p *iqv1.KeyPartition) KeyPartition {
		return KeyPartition{Partition: p.GetPartition(), Active: ReplicaOf(p.GetActive()), Standbys: ReplicasOf(p.GetStandbys())}
	})
}
