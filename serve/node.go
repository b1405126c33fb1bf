package serve

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/kafka"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/store"
	"github.com/iqgate/iqgate/topology"
)

// A Node is what a server asks of its node. All methods may be called by any goroutine, and none but Peek waits.
type Node interface {
	// Store describes a store of the application. The error is STORE_UNKNOWN when there is none of that name.
	Store(name string) (Store, error)
	// Usable refuses a store that the application does not have, and one whose source topic has another partition count
	// now: its keys may be elsewhere than where they are looked for (S29).
	Usable(store string) error
	// StoreInfos describes every store, by name.
	StoreInfos() []metadata.StoreInfo
	// Inputs are the input partitions of the task of a store partition, sorted; false if there is no such partition.
	Inputs(metadata.Partition) ([]metadata.TopicPartition, bool)

	// Replica is the copy of a store partition that is here, nil if there is none.
	Replica(metadata.Partition) Replica
	// Reports are the replicas that are here as they are at now, sorted.
	Reports(now time.Time) []metadata.Replica
	// Hosts is the newest assignment, nil before the first.
	Hosts() *metadata.HostMap
	// About is what the node alone knows of itself.
	About() About

	// Peek lets look see a store partition with the uncommitted writes of its task, and waits until it has. It reports false,
	// and look sees nothing, when the partition is not a running active here. After an error look may still be called.
	Peek(ctx context.Context, id metadata.Partition, look func(store.Reader) error) (bool, error)
	// Kafka is the client and the catalog of topics to read changelogs with.
	Kafka() (*kgo.Client, *kafka.Catalog)
}

// A Replica is a copy of a store partition on this node. All methods may be called by any goroutine, and none but Settle
// waits.
type Replica interface {
	// Settle waits until the outcome of the commit that is in flight now, if there is one, is applied.
	Settle(context.Context) error
	// Read lets look see the store once and tells what the replica was throughout: whatever makes an active's answer good
	// held before the look as well as after it (I8), and lag and input position are those of the position that look says it
	// has seen (I4). The error is store.ErrClosed when the store is not open, else look's.
	Read(look func(*store.KV) (store.Checkpoint, error)) (metadata.Replica, error)
	// Report is the replica as it is at now.
	Report(now time.Time) metadata.Replica
	// State is the replica's state now.
	State() metadata.State

	// KV is the store, nil while it is opened or rebuilt. Another one means that it was rebuilt.
	KV() *store.KV
	// Broken says that the store is about to be rebuilt.
	Broken() bool
	// Damaged takes note that a look at the store failed with store.ErrCorrupt: it is dropped and rebuilt.
	Damaged(error)
	// Changelog is the changelog's partition.
	Changelog() metadata.TopicPartition
	// Changes hands out what is applied to the store.
	Changes() *Changes
}

// A Store is a store of the application with the partitions that it was built with.
type Store struct {
	topology.StoreSpec
	Partitions int32
}

// About is what only a node itself knows of it.
type About struct {
	Incarnation metadata.Incarnation
	Sequence    int64 // of its newest report
	Draining    bool
	Misplaced   []metadata.Misplaced // records, since it started
	Dropped     []metadata.Dropped
}
