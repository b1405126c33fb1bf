package serve

import (
	"testing"
	"time"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// countingNode has counted records of two stores.
type countingNode struct{ Node }

func (countingNode) Inputs(metadata.Partition) ([]metadata.TopicPartition, bool) { return nil, true }
func (countingNode) Reports(time.Time) []metadata.Replica                        { return nil }
func (countingNode) About() About {
	return About{Misplaced: []metadata.Misplaced{{Store: "orders", FirstKey: []byte("o")}, {Store: "salaries", FirstKey: []byte("s")}}}
}

// TestInstanceOfOneStoreShowsNoKeysOfOthers: who may know of one store may not know of all.
func TestInstanceOfOneStoreShowsNoKeysOfOthers(t *testing.T) {
	s := &metadataServer{Server: New(Config{NodeID: "a"})}
	host := metadata.Host{Node: "a", Active: []metadata.Partition{{Store: "orders"}, {Store: "salaries"}}}
	for store, want := range map[string]string{"": "os", "orders": "o", "salaries": "s"} {
		got := ""
		for _, m := range s.instance(countingNode{}, &metadata.HostMap{}, host, &iqv1.ListInstancesRequest{Store: store}).GetMisplaced() {
			got += string(m.GetFirstKey())
		}
		if got != want {
			t.Errorf("of store %q the first keys %q are shown, want %q", store, got, want)
		}
	}
}
