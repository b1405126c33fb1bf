package metadata

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Limits are the times after which a view gives a silent node up. The zero value of a field means its default.
type Limits struct {
	// SuspectAfter is how long a node may be silent before it is suspect. Default 400ms; at least MissedReports of the
	// node's own interval.
	SuspectAfter time.Duration
	// NodeTimeout is how long a node may be silent before it counts as dead. Default 2s; at least MissedReports of the
	// node's own interval.
	NodeTimeout time.Duration
	// DeadKept is how long a dead node is still listed (as dead), and how long a departed one is remembered so that a
	// late report does not bring it back. Default 10m.
	DeadKept time.Duration
}

// MissedReports is how many reports in a row a node may miss, whatever the limits say: an announced interval longer
// than the limits must not make a healthy node suspect.
const MissedReports = 3

func (l Limits) orDefaults() Limits {
	if l.SuspectAfter <= 0 {
		l.SuspectAfter = 400 * time.Millisecond
	}
	if l.NodeTimeout <= 0 {
		l.NodeTimeout = 2 * time.Second
	}
	if l.DeadKept <= 0 {
		l.DeadKept = 10 * time.Minute
	}
	return l
}

// View is the whole application as its nodes' reports tell it, at one moment. It is never written after it was
// returned (I7): Apply, Suspect and Expire return the next one and share with it what did not change.
//
// How a report becomes part of it:
//
//  1. node level: the newest incarnation, then the newest sequence, says address, rack, load and generation;
//  2. replica level: each replica is as the newest report that named it says, or gone if a newer full report did not;
//  3. partition level: the largest end told of by anybody and the newest generation that anybody was active under only
//     grow; of those who claim to be active the newest generation wins, and the others are shown as suspended.
//
// Invariants:
//   - the same reports give the same view, in whatever order and however often they come;
//   - a partition never has two actives, and none of a generation older than one told of before;
//   - a dead node has no lag figures and is last in each partition's list.
type View struct {
	limits      Limits
	application string
	nodes       []*Node // by slot; nil where free
	slots       map[NodeID]int32
	stores      map[string]*storeView
	hosts       *HostMap
}

// NewView returns the view of a router that nobody has reported to.
func NewView(limits Limits) *View {
	return &View{limits: limits.orDefaults()}
}

// Node is one node in a View.
type Node struct {
	ID          NodeID
	Application string
	Address     string
	Rack        string
	Incarnation Incarnation
	Sequence    int64
	Generation  Generation
	Interval    time.Duration
	InFlight    int32
	// Draining says that it hands its tasks over before it leaves. It serves meanwhile.
	Draining bool
	// Misplaced and Dropped are what it has counted since it started.
	Misplaced []Misplaced
	Dropped   []Dropped
	// Version is what it was built from, for people to read; empty when it does not say.
	Version string
	// Received is when its newest report came, by the clock of whoever keeps the view.
	Received time.Time
	// Alive is false once it was silent for the node timeout.
	Alive bool
	// Suspect is true from the moment reports are overdue or a connection was lost until the next report.
	Suspect bool
	// Refused says that its address refused a connection since its newest report: the process is gone, or the address
	// is wrong.
	Refused bool

	left     bool  // it said that it leaves; remembered, not listed
	fullSeq  int64 // sequence of the newest full report
	hasFull  bool
	replicas []*held       // by partition
	stores   []heldStore   // by name
	timeout  time.Duration // of silence, until it is dead
	patience time.Duration // of silence, until it is suspect
	goneAt   time.Time     // when it died or left
}

// held is a replica as the newest report that named it says. It is never written after it was made.
type held struct {
	Replica
	sequence int64
	received time.Time
}

type heldStore struct {
	StoreInfo
	sequence int64
	// since is the sequence of the first report that told of this changelog where one before told of another: replicas
	// told of before it are of that other log.
	since int64
}

// Late says whether the node has missed a report at now, so that it may be gone: long before it is suspect, and often for
// nothing. Of two that may answer the other one is asked first. A node that announces no interval is never late.
func (n *Node) Late(now time.Time) bool {
	return n.Interval > 0 && now.Sub(n.Received) >= 2*n.Interval
}

// Apply returns the view with a report folded in that came at now.
//
// A report of a lower incarnation, and whatever a newer report of the same incarnation has said otherwise, is ignored:
// only the ends that it tells of count, because ends never go back. A report from another application or with an
// address that a live node has is refused with an error, and v is returned. The report must be valid.
func (v *View) Apply(r Report, now time.Time) (*View, error) {
	if v.application != "" && r.Application != v.application && v.anyAlive() {
		return v, &OtherApplicationError{Node: r.Node, Application: r.Application, Known: v.application}
	}
	old := v.node(r.Node)
	if old == nil || r.Incarnation > old.Incarnation {
		old = &Node{ID: r.Node, Incarnation: r.Incarnation, Sequence: -1, Received: now}
	}
	switch {
	case r.Incarnation < old.Incarnation || r.Sequence == old.Sequence:
		return v.raise(r), nil
	case r.Leaving || old.left:
		return v.with(old.depart(r, now), r), nil
	}
	v, err := v.takeOver(r, now)
	if err != nil {
		return v, err
	}
	return v.with(old.merge(r, v.limits, now), r), nil
}

// with returns the view with n for its node, as a report made it.
func (v *View) with(n *Node, r Report) *View {
	next := v.clone()
	if !n.left {
		next.application = r.Application
	}
	if r.Hosts != nil && (next.hosts == nil || r.Hosts.Generation > next.hosts.Generation) {
		next.hosts = r.Hosts
	}
	next.put(n)
	next.raiseTo(r)
	return next
}

// put replaces a node and folds again what follows from it. Only for a view under construction.
func (v *View) put(n *Node) {
	slot := v.slotOf(n.ID)
	old := v.nodes[slot]
	v.nodes[slot] = n
	if old == nil {
		old = &Node{}
	}
	v.refreshStores(old, n)
	v.refold(slot, old, n)
	if old.Alive && !n.Alive && !v.anyAlive() {
		v.forgetGenerations()
	}
}

// merge returns the node with a report of its own incarnation folded in.
func (n *Node) merge(r Report, limits Limits, now time.Time) *Node {
	m := *n
	if r.Sequence > n.Sequence {
		m.Application, m.Address, m.Rack = r.Application, r.Address, r.Rack
		m.Sequence, m.Generation, m.Interval, m.InFlight = r.Sequence, r.Generation, r.Interval, r.InFlight
		m.Draining, m.Misplaced, m.Dropped, m.Version = r.Draining, r.Misplaced, r.Dropped, r.Version
		m.Received, m.Alive, m.Suspect, m.Refused, m.goneAt = now, true, false, false, time.Time{}
		m.patience = max(limits.SuspectAfter, MissedReports*r.Interval)
		m.timeout = max(limits.NodeTimeout, MissedReports*r.Interval)
	}
	m.replicas = mergeReplicas(n.replicas, r, n.fullSeq, m.Received)
	m.stores = mergeStores(n.stores, r, n.fullSeq)
	if r.Full {
		m.fullSeq, m.hasFull = max(n.fullSeq, r.Sequence), true
	}
	return &m
}

// depart returns what is remembered of a node that said goodbye: its name and sequence, so that a report that was sent
// before and comes later does not bring it back, and its stores, so that a store whose last node left is still known.
func (n *Node) depart(r Report, now time.Time) *Node {
	if r.Leaving {
		r.Full = false // a goodbye does not say that the stores are no more
	}
	gone := &Node{
		ID: r.Node, Incarnation: r.Incarnation, Sequence: max(n.Sequence, r.Sequence), Application: r.Application,
		Generation: max(n.Generation, r.Generation), left: true, goneAt: now,
		stores: mergeStores(n.stores, r, n.fullSeq), fullSeq: n.fullSeq, hasFull: n.hasFull || r.Full,
	}
	if n.left {
		gone.goneAt = n.goneAt
	}
	if r.Full {
		gone.fullSeq = max(n.fullSeq, r.Sequence)
	}
	return gone
}

// mergeReplicas walks both lists by partition. A replica is as the newest report that named it says; a full report
// drops what older ones named and it does not.
func mergeReplicas(old []*held, r Report, fullSeq int64, received time.Time) []*held {
	if !r.Full && len(r.Replicas) == 0 {
		return old
	}
	told := r.sortedReplicas()
	fresh := make([]held, 0, len(told)) // one allocation for all
	merged := make([]*held, 0, max(len(old), len(told)))
	take := func(rep Replica) {
		fresh = append(fresh, held{Replica: rep, sequence: r.Sequence, received: received})
		merged = append(merged, &fresh[len(fresh)-1])
	}
	for len(old) > 0 || len(told) > 0 {
		var order int
		switch {
		case len(old) == 0:
			order = 1
		case len(told) == 0:
			order = -1
		default:
			order = old[0].Compare(told[0].Partition)
		}
		switch {
		case order < 0:
			if !r.Full || old[0].sequence >= r.Sequence {
				merged = append(merged, old[0])
			}
		case order > 0:
			if r.Sequence >= fullSeq {
				take(told[0])
			}
		case old[0].sequence >= r.Sequence:
			merged = append(merged, old[0]) // a duplicate must not look younger than its first copy
		default:
			take(told[0])
		}
		if order <= 0 {
			old = old[1:]
		}
		if order >= 0 {
			told = told[1:]
		}
	}
	return merged
}

// mergeStores is mergeReplicas for the few stores.
func mergeStores(old []heldStore, r Report, fullSeq int64) []heldStore {
	if !r.Full && len(r.Stores) == 0 {
		return old
	}
	told := r.sortedStores()
	merged := make([]heldStore, 0, max(len(old), len(told)))
	find := func(list []heldStore, name string) int {
		return slices.IndexFunc(list, func(s heldStore) bool { return s.Name == name })
	}
	for _, o := range old {
		named := slices.ContainsFunc(told, func(s StoreInfo) bool { return s.Name == o.Name })
		if o.sequence >= r.Sequence || (!r.Full && !named) {
			merged = append(merged, o)
		}
	}
	for _, s := range told {
		var since int64
		if i := find(old, s.Name); i >= 0 {
			since = r.Sequence
			if sameTopic(old[i].ChangelogID, s.ChangelogID) {
				since = min(since, old[i].since)
			}
		}
		switch i := find(merged, s.Name); {
		case i < 0 && r.Sequence >= fullSeq:
			merged = append(merged, heldStore{StoreInfo: s, sequence: r.Sequence, since: since})
		case i >= 0 && sameTopic(merged[i].ChangelogID, s.ChangelogID):
			merged[i].since = since
		}
	}
	slices.SortFunc(merged, func(a, b heldStore) int { return strings.Compare(a.Name, b.Name) })
	return merged
}

// takeOver refuses an address that a live node has. A holder whose address refuses connections is gone, whatever its
// last report says, and counts as dead from here on.
func (v *View) takeOver(r Report, now time.Time) (*View, error) {
	if n := v.node(r.Node); n != nil && n.Alive && n.Address == r.Address {
		return v, nil // nobody else can have it, and who is alive needs no look at all the others
	}
	for _, n := range v.nodes {
		if n == nil || n.left || !n.Alive || n.ID == r.Node || n.Address != r.Address {
			continue
		}
		if !n.Refused {
			return v, &AddressTakenError{Node: r.Node, Address: r.Address, Holder: n.ID}
		}
		v = v.bury(n, now)
	}
	return v, nil
}

// clone copies what every change writes; the rest is copied where it is changed.
func (v *View) clone() *View {
	c := *v
	c.nodes = slices.Clone(v.nodes)
	c.stores = maps.Clone(v.stores)
	if c.stores == nil {
		c.stores = map[string]*storeView{}
	}
	return &c
}

// slotOf finds the node's slot or makes one. Only for a view under construction.
func (v *View) slotOf(id NodeID) int32 {
	if slot, known := v.slots[id]; known {
		return slot
	}
	slot := slices.Index(v.nodes, nil)
	if slot < 0 {
		slot = len(v.nodes)
		v.nodes = append(v.nodes, nil)
	}
	v.slots = maps.Clone(v.slots)
	if v.slots == nil {
		v.slots = map[NodeID]int32{}
	}
	v.slots[id] = int32(slot)
	return v.slots[id]
}

func (v *View) node(id NodeID) *Node {
	if slot, ok := v.slots[id]; ok {
		return v.nodes[slot]
	}
	return nil
}

func (v *View) anyAlive() bool {
	return slices.ContainsFunc(v.nodes, func(n *Node) bool { return n != nil && n.Alive })
}
