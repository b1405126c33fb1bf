package metadata

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrNotReady says that no node has told of any store yet, so that an unknown one may only be early.
var ErrNotReady = errors.New("no node has told of any store yet")

// UnknownStoreError says that no node has told of the store.
type UnknownStoreError struct {
	Store string
	Known []string // the stores that nodes have told of, in order
}

// Error names the store and the known ones.
func (e *UnknownStoreError) Error() string {
	return fmt.Sprintf("store %q is not known; known are %q", e.Store, e.Known)
}

// NoPartitionError says that the store has no such partition.
type NoPartitionError struct {
	Partition Partition
	Count     int32 // how many it has, from 0
}

// Error names the partition and the count.
func (e *NoPartitionError) Error() string {
	return fmt.Sprintf("store %q has no partition %d: it has %d, from 0", e.Partition.Store, e.Partition.Partition, e.Count)
}

// UnassignedError says that nobody has ever held the partition: the first assignment is still to come.
type UnassignedError struct {
	Partition Partition
	// Owner is whom the newest host map names as the active; empty when none does.
	Owner NodeID
}

// Error names the partition and who is to have it.
func (e *UnassignedError) Error() string {
	if e.Owner == "" {
		return fmt.Sprintf("partition %s is not assigned to any node yet", e.Partition)
	}
	return fmt.Sprintf("partition %s is not held by any node yet: node %q is to have it", e.Partition, e.Owner)
}

// PartitionView is one partition in a View: its replicas, the serving active first, then by freshness, the dead last.
type PartitionView struct {
	Partition
	v *View
	p *part
}

// Hosted is a replica and the node that it is on.
type Hosted struct {
	// Replica is as the node's newest word on it. A claim to be active that another displaces is shown as suspended, and
	// the replica of a dead node without figures.
	Replica
	Node *Node
	// Active says that this is the partition's one active, in whatever state.
	Active bool
	// Received is when that word came.
	Received time.Time
}

// Ready says whether any node has told of a store. A node that has just started reports before it knows its own.
func (v *View) Ready() bool {
	for _, s := range v.stores {
		if s.known {
			return true
		}
	}
	return false
}

// Application is the application whose nodes report; empty before the first report.
func (v *View) Application() string { return v.application }

// HostMap is the newest host map that a node has sent; nil before the first.
func (v *View) HostMap() *HostMap { return v.hosts }

// Node finds a node by its id; nil when it is not known, has left, or was forgotten.
func (v *View) Node(id NodeID) *Node {
	if n := v.node(id); n != nil && !n.left {
		return n
	}
	return nil
}

// Nodes lists the nodes, dead ones too, by id.
func (v *View) Nodes() []*Node {
	nodes := make([]*Node, 0, len(v.nodes))
	for _, n := range v.nodes {
		if n != nil && !n.left {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return nodes
}

// WantsFull says that the node's reports have been partial ones so far, so that what it hosts is not fully known.
func (v *View) WantsFull(id NodeID) bool {
	n := v.node(id)
	return n != nil && !n.left && !n.hasFull
}

// Stores lists what is known of every store, by name.
func (v *View) Stores() []StoreInfo {
	stores := make([]StoreInfo, 0, len(v.stores))
	for _, s := range v.stores {
		if s.known {
			stores = append(stores, s.info)
		}
	}
	slices.SortFunc(stores, func(a, b StoreInfo) int { return strings.Compare(a.Name, b.Name) })
	return stores
}

// Store returns what is known of a store. The error is ErrNotReady or an *UnknownStoreError.
func (v *View) Store(name string) (StoreInfo, error) {
	s, err := v.lookup(name)
	if err != nil {
		return StoreInfo{}, err
	}
	return s.info, nil
}

func (v *View) lookup(name string) (*storeView, error) {
	if s := v.stores[name]; s != nil && s.known {
		return s, nil
	}
	if !v.Ready() {
		return nil, ErrNotReady
	}
	e := &UnknownStoreError{Store: name}
	for _, s := range v.Stores() {
		e.Known = append(e.Known, s.Name)
	}
	return nil, e
}

// Partition returns one partition of a store. It does not allocate. The error is ErrNotReady, an *UnknownStoreError,
// a *NoPartitionError, or an *UnassignedError while nobody has ever held the partition.
func (v *View) Partition(p Partition) (PartitionView, error) {
	s, err := v.lookup(p.Store)
	if err != nil {
		return PartitionView{}, err
	}
	if p.Partition < 0 || p.Partition >= s.info.Partitions {
		return PartitionView{}, &NoPartitionError{Partition: p, Count: s.info.Partitions}
	}
	if int(p.Partition) >= len(s.parts) || !s.parts[p.Partition].held {
		return PartitionView{}, &UnassignedError{Partition: p, Owner: v.hosts.owner(p)}
	}
	return PartitionView{Partition: p, v: v, p: &s.parts[p.Partition]}, nil
}

func (h *HostMap) owner(p Partition) NodeID {
	if h != nil {
		for _, host := range h.Hosts {
			if slices.Contains(host.Active, p) {
				return host.Node
			}
		}
	}
	return ""
}

// Len is the number of replicas, those of dead nodes included.
func (p PartitionView) Len() int { return len(p.p.refs) }

// End is the largest end that any node has told of; LagUnknown before the first.
func (p PartitionView) End() int64 { return p.p.end }

// Followed says that the nodes follow the changelog of an application that runs elsewhere.
func (p PartitionView) Followed() bool { return p.v.stores[p.Store].info.Followed }

// Generation is the newest generation that anybody was active under, alive or not.
func (p PartitionView) Generation() Generation { return p.p.generation }

// At returns the i-th replica.
func (p PartitionView) At(i int) Hosted {
	r := p.p.refs[i]
	h := Hosted{Replica: r.Replica, Node: p.v.nodes[r.slot], Active: i == int(p.p.active), Received: r.received}
	if !h.Node.Alive {
		h.State, h.LeaseValid, h.Input = StateSuspended, false, nil
		h.Lag = LagInfo{Position: LagUnknown, End: LagUnknown, Offsets: LagUnknown, Time: LagUnknown}
	} else if h.Role == RoleActive && !h.Active {
		h.State, h.LeaseValid = StateSuspended, false
	}
	return h
}

// Serves says whether the replica is the RUNNING active under a lease, as far as its node has told.
func (h Hosted) Serves() bool {
	return h.Active && h.Node.Alive && h.State == StateRunning && h.LeaseValid
}

// LagAt is how far the replica is behind at now: its offsets against the largest end that any node has told of, and its
// times older by the age of the report. A serving active that is heard in time is as fresh as it told, because
// nobody else can have written since; its age counts once it is suspect.
func (p PartitionView) LagAt(h Hosted, now time.Time) LagInfo {
	lag := h.Lag
	if !h.Node.Alive {
		return lag
	}
	age := max(0, now.Sub(h.Received))
	lag.End = p.p.end
	lag.SampleAge += age
	if h.Serves() && !h.Node.Suspect {
		return lag
	}
	if lag.Offsets != LagUnknown {
		lag.Offsets = max(0, p.p.end-lag.Position)
	}
	if lag.Time != LagUnknown {
		lag.Time += age
	}
	return lag
}
