package dashboard

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// unknown stands for a figure that nobody knows, as metadata.LagUnknown does.
const unknown = metadata.LagUnknown

// maxPartitions bounds the partitions that a page lists: no browser shows more, and nobody looks at them.
const maxPartitions = 10_000

// Page is what the page shows at one moment. It is never written after it was made. Times are in milliseconds; a lag or an age
// that is not known is -1, and one that is known is rounded up to what the page shows of it.
type Page struct {
	// Application is the application whose nodes report; empty before the first report.
	Application string `json:"application"`
	// Nodes are by id, Stores by name, Partitions by store and number.
	Nodes      []Node      `json:"nodes"`
	Stores     []Store     `json:"stores"`
	Partitions []Partition `json:"partitions"`
	// Left is how many partitions are not listed, because there are more than 10,000: those of the last stores. Nodes and Summary
	// count them too.
	Left int `json:"left,omitempty"`
	// Restores are the replicas that restore, the one that is over last first.
	Restores []Restore `json:"restores"`
	Summary  Summary   `json:"summary"`
	Reads    Reads     `json:"reads"`
	// Recent are reads, the oldest first.
	Recent []Read `json:"recent"`
}

// NodeState is whether a node is heard.
type NodeState string

// The states of a node.
const (
	NodeAlive   NodeState = "alive"
	NodeSuspect NodeState = "suspect" // reports are overdue, or a connection was lost
	NodeDead    NodeState = "dead"    // silent for the node timeout
)

// Lease is whether a node may speak as active.
type Lease string

// What is known of a node's lease.
const (
	LeaseHeld   Lease = "held"
	LeaseLapsed Lease = "lapsed"
	LeaseNone   Lease = "none" // it is active for nothing, so it tells of none
)

// Node is one row of the nodes.
type Node struct {
	ID       string    `json:"id"`
	State    NodeState `json:"state"`
	Draining bool      `json:"draining,omitempty"`
	// Refused says that its address refuses connections.
	Refused    bool   `json:"refused,omitempty"`
	Version    string `json:"version,omitempty"`
	Address    string `json:"address"`
	Rack       string `json:"rack,omitempty"`
	Generation int64  `json:"generation"`
	// HeardMs is the age of its last report.
	HeardMs int64 `json:"heard_ms"`
	Lease   Lease `json:"lease"`
	// Active, Standby and Warmup are its replicas by role, Restoring and Suspended by state. Those of a dead node are what it
	// held.
	Active    int `json:"active"`
	Standby   int `json:"standby"`
	Warmup    int `json:"warmup,omitempty"`
	Restoring int `json:"restoring,omitempty"`
	Suspended int `json:"suspended,omitempty"`
	// WorstOffsets and WorstMs are the largest lags of its replicas.
	WorstOffsets int64 `json:"worst_offsets"`
	WorstMs      int64 `json:"worst_ms"`
	// Misplaced and Dropped are the records that it has counted since it started, see metadata.Misplaced and metadata.Dropped.
	Misplaced int64 `json:"misplaced,omitempty"`
	Dropped   int64 `json:"dropped,omitempty"`
}

// Store is what the page says of a store.
type Store struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Partitions  int32  `json:"partitions"`
	Partitioner string `json:"partitioner"`
	KeySerde    string `json:"key_serde"`
	ValueSerde  string `json:"value_serde"`
	// Followed says that no node is ever its active.
	Followed bool `json:"followed,omitempty"`
	// ActualPartitions is what its source topics have now, where that is not Partitions: reads are refused then.
	ActualPartitions int32 `json:"actual_partitions,omitempty"`
}

// Status is who can answer reads of a partition.
type Status string

// The statuses of a partition.
const (
	StatusServed     Status = "served"     // the active under its lease; of a followed store a copy that has caught up
	StatusCopies     Status = "copies"     // no active serves, but copies live
	StatusNobody     Status = "nobody"     // nobody alive holds it
	StatusUnassigned Status = "unassigned" // nobody has ever held it
)

// Partition is one partition and a cell for each of its replicas: actives first, then by node; those of dead nodes last.
type Partition struct {
	Store    string    `json:"store"`
	Number   int32     `json:"number"`
	Status   Status    `json:"status"`
	Replicas []Replica `json:"replicas"`
}

// Grade is how a replica stands, in one word. It is the colour of its cell.
type Grade string

// The grades, best first.
const (
	GradeFresh     Grade = "fresh"     // it serves as the active, or is at most FreshFor behind
	GradeBehind    Grade = "behind"    // at most BehindFor behind
	GradeFar       Grade = "far"       // more than that
	GradeUnknown   Grade = "unknown"   // no sample has measured its lag yet
	GradeRestoring Grade = "restoring" // it reads the changelog up
	GradeSuspended Grade = "suspended" // its task stopped, was revoked or fenced
	GradeDead      Grade = "dead"      // its node is dead
)

// The time lags that part the grades.
const (
	FreshFor  = time.Second
	BehindFor = 10 * time.Second
)

// Replica is one cell.
type Replica struct {
	Node  string `json:"node"`
	Role  string `json:"role"`
	State string `json:"state"`
	Grade Grade  `json:"grade"`
	// Serves says that it is the running active under a valid lease, and that its address does not refuse connections.
	Serves bool `json:"serves,omitempty"`
	// Suspect says that its node is.
	Suspect bool  `json:"suspect,omitempty"`
	Offsets int64 `json:"offsets"`
	TimeMs  int64 `json:"time_ms"`
}

// Summary is the page in one line.
type Summary struct {
	Alive   int `json:"alive"`
	Suspect int `json:"suspect"`
	Dead    int `json:"dead"`
	// Served, Copies, Nobody and Unassigned count partitions by status.
	Served     int `json:"served"`
	Copies     int `json:"copies"`
	Nobody     int `json:"nobody"`
	Unassigned int `json:"unassigned"`
	Restoring  int `json:"restoring"`
	// WorstOffsets and WorstMs are the largest lags of replicas that run, on nodes that live.
	WorstOffsets int64 `json:"worst_offsets"`
	WorstMs      int64 `json:"worst_ms"`
}

// MakePage makes a page of a view at now: of one store and the nodes that host it, or of all when store is empty. What reads
// meet and how restores go is not in it. The same view, store and now always give the same page.
func MakePage(v *metadata.View, store string, now time.Time) *Page {
	p := &Page{
		Application: v.Application(), Nodes: []Node{}, Stores: []Store{}, Partitions: []Partition{}, Restores: []Restore{}, Recent: []Read{}, Reads: Reads{Course: []Point{}},
		Summary: Summary{WorstOffsets: unknown, WorstMs: unknown},
	}
	held := map[metadata.NodeID]*holding{}
	for _, info := range v.Stores() {
		if store != "" && info.Name != store {
			continue
		}
		p.Stores = append(p.Stores, storeOf(&info))
		for number := range info.Partitions {
			part := partitionOf(v, metadata.Partition{Store: info.Name, Partition: number}, now, held)
			p.Summary.count(&part)
			if len(p.Partitions) < maxPartitions {
				p.Partitions = append(p.Partitions, part)
			} else {
				p.Left++
			}
		}
	}
	for _, n := range v.Nodes() {
		h := held[n.ID]
		if h == nil {
			if h = newHolding(); store != "" {
				continue
			}
		}
		node := nodeOf(n, h, store, now)
		p.Nodes = append(p.Nodes, node)
		switch node.State {
		case NodeAlive:
			p.Summary.Alive++
		case NodeSuspect:
			p.Summary.Suspect++
		case NodeDead:
			p.Summary.Dead++
		}
		p.Summary.WorstOffsets, p.Summary.WorstMs = max(p.Summary.WorstOffsets, h.runningOffsets), max(p.Summary.WorstMs, h.runningMs)
	}
	return p
}

func storeOf(info *metadata.StoreInfo) Store {
	s := Store{
		Name: info.Name, Kind: info.Kind, Partitions: info.Partitions, Partitioner: info.Partitioner,
		KeySerde: info.KeySerde, ValueSerde: info.ValueSerde, Followed: info.Followed,
	}
	if info.ActualPartitions != 0 && info.ActualPartitions != info.Partitions {
		s.ActualPartitions = info.ActualPartitions
	}
	return s
}

// holding is what a node holds, summed up.
type holding struct {
	active, standby, warmup, restoring, suspended int
	leases                                        int // valid ones, of its actives
	worstOffsets, worstMs                         int64
	runningOffsets, runningMs                     int64 // the worst of those that run, on a node that lives
}

func newHolding() *holding {
	return &holding{worstOffsets: unknown, worstMs: unknown, runningOffsets: unknown, runningMs: unknown}
}

func (h *holding) add(r *metadata.Hosted, cell *Replica) {
	switch r.Role {
	case metadata.RoleActive:
		h.active++
		if r.LeaseValid {
			h.leases++
		}
	case metadata.RoleStandby:
		h.standby++
	case metadata.RoleWarmup:
		h.warmup++
	}
	switch r.State {
	case metadata.StateRestoring:
		h.restoring++
	case metadata.StateSuspended:
		h.suspended++
	case metadata.StateRunning:
		h.runningOffsets, h.runningMs = max(h.runningOffsets, cell.Offsets), max(h.runningMs, cell.TimeMs)
	case metadata.StateClosed:
	}
	h.worstOffsets, h.worstMs = max(h.worstOffsets, cell.Offsets), max(h.worstMs, cell.TimeMs)
}

func nodeOf(n *metadata.Node, h *holding, store string, now time.Time) Node {
	node := Node{
		ID: string(n.ID), State: stateOf(n), Draining: n.Draining, Refused: n.Refused, Version: n.Version, Address: n.Address, Rack: n.Rack,
		Generation: int64(n.Generation), HeardMs: roundTime(max(0, now.Sub(n.Received))), Lease: LeaseNone,
		Active: h.active, Standby: h.standby, Warmup: h.warmup, Restoring: h.restoring, Suspended: h.suspended,
		WorstOffsets: h.worstOffsets, WorstMs: h.worstMs,
	}
	if h.active > 0 && n.Alive {
		node.Lease = LeaseLapsed
		if h.leases > 0 {
			node.Lease = LeaseHeld
		}
	}
	if !n.Alive {
		node.Suspended = 0 // that of a dead node says no more than that it is dead
	}
	for _, m := range n.Misplaced {
		if store == "" || m.Store == store {
			node.Misplaced += m.Records
		}
	}
	for _, d := range n.Dropped {
		node.Dropped += d.Records
	}
	return node
}

func stateOf(n *metadata.Node) NodeState {
	switch {
	case !n.Alive:
		return NodeDead
	case n.Suspect:
		return NodeSuspect
	}
	return NodeAlive
}

// partitionOf makes the cells of a partition, and counts each with its node.
func partitionOf(v *metadata.View, id metadata.Partition, now time.Time, held map[metadata.NodeID]*holding) Partition {
	part := Partition{Store: id.Store, Number: id.Partition, Status: StatusNobody, Replicas: []Replica{}}
	pv, err := v.Partition(id)
	if err != nil {
		if _, never := errors.AsType[*metadata.UnassignedError](err); never {
			part.Status = StatusUnassigned
		}
		return part
	}
	for i := range pv.Len() {
		h := pv.At(i)
		cell := replicaOf(&h, pv.LagAt(h, now))
		part.Replicas = append(part.Replicas, cell)
		if held[h.Node.ID] == nil {
			held[h.Node.ID] = newHolding()
		}
		held[h.Node.ID].add(&h, &cell)
		answers := cell.Serves || pv.Followed() && h.State == metadata.StateRunning
		switch {
		case !h.Node.Alive:
		case answers && !h.Node.Refused:
			part.Status = StatusServed
		case part.Status == StatusNobody:
			part.Status = StatusCopies
		}
	}
	slices.SortStableFunc(part.Replicas, compareCells)
	return part
}

func replicaOf(h *metadata.Hosted, lag metadata.LagInfo) Replica {
	r := Replica{
		Node: string(h.Node.ID), Role: h.Role.String(), State: h.State.String(), Serves: h.Serves() && !h.Node.Refused,
		Suspect: h.Node.Alive && h.Node.Suspect, Offsets: roundOffsets(lag.Offsets), TimeMs: roundTime(lag.Time),
	}
	r.Grade = grade(h, lag.Time)
	return r
}

func grade(h *metadata.Hosted, behind time.Duration) Grade {
	switch {
	case !h.Node.Alive:
		return GradeDead
	case h.State == metadata.StateRestoring:
		return GradeRestoring
	case h.State != metadata.StateRunning, h.Active && !h.LeaseValid:
		return GradeSuspended
	case behind == unknown:
		return GradeUnknown
	case behind <= FreshFor:
		return GradeFresh
	case behind <= BehindFor:
		return GradeBehind
	}
	return GradeFar
}

// compareCells is an order that a change of figures leaves as it is, so that a cell stays where it is looked at.
func compareCells(a, b Replica) int {
	rank := func(r *Replica) int {
		switch {
		case r.Grade == GradeDead:
			return 2
		case r.Role == metadata.RoleActive.String() && r.Grade != GradeSuspended:
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), strings.Compare(a.Node, b.Node))
}

func (s *Summary) count(p *Partition) {
	switch p.Status {
	case StatusServed:
		s.Served++
	case StatusCopies:
		s.Copies++
	case StatusNobody:
		s.Nobody++
	case StatusUnassigned:
		s.Unassigned++
	}
	for i := range p.Replicas {
		if p.Replicas[i].Grade == GradeRestoring {
			s.Restoring++
		}
	}
}

// roundTime rounds a time up to the step that is shown of one so long, in milliseconds. The first step is longer than what
// a healthy copy is behind, so that its cell stays calm.
func roundTime(d time.Duration) int64 {
	var step time.Duration
	switch {
	case d < 0:
		return unknown
	case d <= 10*time.Second:
		step = 500 * time.Millisecond
	case d <= time.Minute:
		step = time.Second
	case d <= time.Hour:
		step = time.Minute / 6
	default:
		step = 10 * time.Minute
	}
	if d > math.MaxInt64-step {
		return d.Milliseconds()
	}
	return int64((d+step-1)/step) * step.Milliseconds()
}

// roundOffsets rounds a count up to its two first digits; below 100 it is exact.
func roundOffsets(n int64) int64 {
	const exact = 100
	if n < exact {
		return max(n, unknown)
	}
	step := int64(1)
	for n/step >= exact {
		step *= 10
	}
	if n > math.MaxInt64-step {
		return n
	}
	return (n + step - 1) / step * step
}
