package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// TestNodeConnectionsAreBounded: beyond the bound no connection is made, so those reads are routed, and one that closes
// makes room.
func TestNodeConnectionsAreBounded(t *testing.T) {
	v, now := metadata.NewView(metadata.Limits{}), time.Unix(1, 0)
	for i := range MaxNodeConnections + 1 {
		var err error
		if v, err = v.Apply(metadata.Report{Node: metadata.NodeID(fmt.Sprint(i)), Address: fmt.Sprintf("host:%d", i+1), Full: true}, now); err != nil {
			t.Fatal(err)
		}
	}
	ns := newNodes(dialOptions(), false)
	if ns.get(v.Nodes()[0]) != nil {
		t.Error("connected to a node that no view knows")
	}
	if err := ns.follow(v); err != nil {
		t.Fatal(err)
	}
	all := v.Nodes()
	last := all[MaxNodeConnections]
	for _, n := range all[:MaxNodeConnections] {
		if c := ns.get(n); c == nil || c != ns.get(n) {
			t.Fatalf("node %s: no connection, or a second one", n.ID)
		}
	}
	if ns.get(last) != nil {
		t.Errorf("connection %d was made", MaxNodeConnections+1)
	}
	old := all[0]
	v, err := v.Apply(metadata.Report{Node: old.ID, Incarnation: 1, Sequence: 1, Address: "moved:1", Full: true}, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.follow(v); err != nil {
		t.Fatal(err)
	}
	if ns.get(old) != nil {
		t.Error("connected to a node as an old view has it")
	}
	if ns.get(last) == nil {
		t.Error("a closed connection made no room")
	}
	if err := ns.follow(nil); err != nil {
		t.Fatal(err)
	}
	if ns.get(last) != nil {
		t.Error("connected after the end")
	}
}
