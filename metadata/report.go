package metadata

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of what a report may say, so that no node can make a view grow without end.
const (
	// MaxPartitions bounds a store's partitions, and with them what one store costs in a view.
	MaxPartitions = 1 << 17
	// MaxInterval bounds the time between two reports that a node may announce: three of them are its timeout.
	MaxInterval = 10 * time.Second
	// MaxVersionBytes bounds a node's version. A router cuts a longer one.
	MaxVersionBytes = 64
)

// Report is what one node says of itself at one moment: the domain form of a heartbeat.
//
// Within one incarnation the sequence orders the reports; between incarnations of one node id the incarnation does. A
// View takes reports in any order and more than once.
type Report struct {
	Node        NodeID
	Incarnation Incarnation
	Sequence    int64
	Application string
	// Address is where the node answers queries, as host:port.
	Address string
	Rack    string
	// Generation is the newest group generation that the node has seen.
	Generation Generation
	// Full says that the replicas and stores not named are gone. In a partial report they are unchanged.
	Full     bool
	Replicas []Replica
	Stores   []StoreInfo
	// Leaving says that the node is shutting down on purpose. It is the last word of its incarnation.
	Leaving bool
	// Interval is how often the node means to report; 0 when it does not say. At most MaxInterval.
	Interval time.Duration
	// InFlight is the number of queries that the node is answering.
	InFlight int32
	// Hosts is the node's newest host map; nil when unchanged.
	Hosts *HostMap
	// Draining says that the node hands its tasks over before it leaves. It serves meanwhile.
	Draining bool
	// Misplaced and Dropped are whole in every report, partial ones too.
	Misplaced []Misplaced
	Dropped   []Dropped
	// Version is what the node was built from, for people to read. At most MaxVersionBytes.
	Version string
}

// Validate reports every field that no node may say, by name and value.
func (r Report) Validate() error {
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v is not %s", field, value, want))
	}
	if r.Node == "" {
		bad("node", `""`, "a node id")
	}
	if r.Incarnation < 0 {
		bad("incarnation", r.Incarnation, "0 or more")
	}
	if r.Sequence < 0 {
		bad("sequence", r.Sequence, "0 or more")
	}
	if r.Address == "" && !r.Leaving {
		bad("address", `""`, "an address as host:port")
	}
	if r.Interval < 0 || r.Interval > MaxInterval {
		bad("interval", r.Interval, "between 0s and "+MaxInterval.String())
	}
	if r.InFlight < 0 {
		bad("in_flight", r.InFlight, "0 or more")
	}
	if len(r.Version) > MaxVersionBytes {
		bad("version", fmt.Sprintf("a text of %d bytes", len(r.Version)), fmt.Sprintf("cut to %d", MaxVersionBytes))
	}
	seen := make(map[Partition]bool, len(r.Replicas))
	for i := range r.Replicas {
		if err := validReplica(&r.Replicas[i]); err != nil {
			errs = append(errs, fmt.Errorf("replicas[%d] (%s): %w", i, r.Replicas[i].Partition, err))
		}
		if seen[r.Replicas[i].Partition] {
			bad("replicas", r.Replicas[i].Partition, "named once")
		}
		seen[r.Replicas[i].Partition] = true
	}
	for i, s := range r.Stores {
		field := fmt.Sprintf("stores[%d] (%s)", i, s.Name)
		if s.Name == "" {
			bad(field+".name", `""`, "a store's name")
		}
		if s.Partitions < 1 || s.Partitions > MaxPartitions {
			bad(field+".partitions", s.Partitions, fmt.Sprintf("between 1 and %d", MaxPartitions))
		}
		if s.ActualPartitions < 0 {
			bad(field+".actual_partitions", s.ActualPartitions, "0 or more")
		}
		if s.WindowSize < 0 {
			bad(field+".window_size", s.WindowSize, "0s or more")
		}
		if s.Retention < 0 {
			bad(field+".retention", s.Retention, "0s or more")
		}
	}
	errs = append(errs, r.validCounts())
	return errors.Join(errs...)
}

func validReplica(r *Replica) error {
	switch l := r.Lag; {
	case r.Store == "":
		return errors.New(`store: "" is not a store's name`)
	case r.Partition.Partition < 0 || r.Partition.Partition >= MaxPartitions:
		return fmt.Errorf("partition: %d is not between 0 and %d", r.Partition.Partition, MaxPartitions-1)
	case r.Role < RoleActive || r.Role > RoleWarmup:
		return fmt.Errorf("role: %s is none", r.Role)
	case r.State < StateRestoring || r.State > StateClosed:
		return fmt.Errorf("state: %s is none", r.State)
	case l.Position < 0:
		return fmt.Errorf("position: %d is not 0 or more", l.Position)
	case l.End < LagUnknown:
		return fmt.Errorf("end_position: %d is not 0 or more", l.End)
	case l.Offsets < LagUnknown:
		return fmt.Errorf("offset_lag: %d is not 0 or more", l.Offsets)
	case l.Time < LagUnknown:
		return fmt.Errorf("time_lag: %s is not 0s or more", l.Time)
	case l.SampleAge < 0:
		return fmt.Errorf("sample_age: %s is not 0s or more", l.SampleAge)
	}
	return nil
}

// sortedReplicas are the report's replicas by partition. The report itself is not written.
func (r Report) sortedReplicas() []Replica {
	byPartition := func(a, b Replica) int { return a.Compare(b.Partition) }
	if slices.IsSortedFunc(r.Replicas, byPartition) {
		return r.Replicas
	}
	return slices.SortedStableFunc(slices.Values(r.Replicas), byPartition)
}

// sortedStores are the report's stores by name.
func (r Report) sortedStores() []StoreInfo {
	byName := func(a, b StoreInfo) int { return strings.Compare(a.Name, b.Name) }
	if slices.IsSortedFunc(r.Stores, byName) {
		return r.Stores
	}
	return slices.SortedStableFunc(slices.Values(r.Stores), byName)
}

// AddressTakenError says that a live node already answers at a reporting node's address (S20): one of the two is
// configured wrong, and the one that was first stays routed.
type AddressTakenError struct {
	Node    NodeID // who reported
	Address string
	Holder  NodeID // who has the address
}

// Error names both nodes and the address.
func (e *AddressTakenError) Error() string {
	return fmt.Sprintf("node %q advertises address %q, which live node %q has already: give each node its own advertised address",
		e.Node, e.Address, e.Holder)
}

// OtherApplicationError says that a node of another application reported. Their stores may have the same names, so
// they are not mixed.
type OtherApplicationError struct {
	Node        NodeID
	Application string // of the reporting node
	Known       string // of the view
}

// Error names the node and both applications.
func (e *OtherApplicationError) Error() string {
	return fmt.Sprintf("node %q is of application %q, but this router serves application %q", e.Node, e.Application, e.Known)
}
