package client

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Lags of a replica that does not know its own. They are the largest there are, so that comparing a lag with a bound is
// right without asking whether it is known.
const (
	UnknownOffsetLag int64         = math.MaxInt64
	UnknownTimeLag   time.Duration = math.MaxInt64
)

// Result is the answer to a read, with the facts that tell how fresh it is.
type Result struct {
	// Found is false for a key that the store does not hold; Value is nil then.
	Found bool
	// Value is as the store's value serde wrote it; it may be empty although Found. It belongs to the caller.
	Value []byte
	// Timestamp is the record timestamp of the value; zero when not found.
	Timestamp time.Time
	// ValidUntil is when the version found ended, exclusive; zero for the latest, and for stores that are not versioned.
	ValidUntil time.Time
	// Node answered; Address is where it listens.
	Node, Address string
	// Role and State are those of the replica that answered.
	Role  iqv1.Role
	State iqv1.ReplicaState
	// Generation is the group generation under which the role was given.
	Generation int64
	// Partition is the store partition that was read.
	Partition int32
	// OffsetLag is how many changelog offsets the replica was behind at the moment of the read; UnknownOffsetLag when it
	// does not know.
	OffsetLag int64
	// TimeLag is an upper bound on the answer's staleness; UnknownTimeLag when the replica does not know.
	TimeLag time.Duration
	// Position is the replica's next changelog offset at the moment of the read.
	Position int64
	// InputPosition is, per input partition, the offset below which every record's effect is in the value. Pass it to
	// AtLeast to never read anything older.
	InputPosition *iqv1.Position
	// Way is how the answer came. A client without WithDirect has WayRouted alone.
	Way Way
	// Detour is why a client with WithDirect read through a router; DetourNone otherwise.
	Detour Detour
	// Attempts are those that were asked before the one that answered: the nodes asked directly, the
	// client's targets, then the router's replicas.
	Attempts []*iqv1.Attempt
	// Decision is the router's judgement on each replica; nil unless Explain was given.
	Decision *iqv1.Decision
	// Served is the replica that answered, as the server told; the fields above are taken from it.
	Served *iqv1.ReplicaStatus
}

func resultOf(res *iqv1.GetResponse, attempts []*iqv1.Attempt) Result {
	s := res.GetServed()
	r := Result{
		Found: res.GetFound(), Node: s.GetNode(), Address: s.GetAddress(), Role: s.GetRole(), State: s.GetState(),
		Generation: s.GetGeneration(), Partition: s.GetPartition(), Position: s.GetPosition(), InputPosition: res.GetInputPosition(),
		OffsetLag: UnknownOffsetLag, TimeLag: UnknownTimeLag,
		Attempts: append(attempts, res.GetAttempts()...), Decision: res.GetDecision(), Served: s,
	}
	if r.Found {
		r.Value, r.Timestamp = res.GetValue(), time.UnixMilli(res.GetTimestampMs())
		if r.Value == nil {
			r.Value = []byte{} // the wire does not tell an empty value from none, Found does
		}
	}
	if r.Found && res.ValidUntilMs != nil {
		r.ValidUntil = time.UnixMilli(res.GetValidUntilMs())
	}
	if s != nil && s.OffsetLag != nil {
		r.OffsetLag = s.GetOffsetLag()
	}
	if s.GetTimeLag() != nil {
		r.TimeLag = s.GetTimeLag().AsDuration()
	}
	return r
}

// ServedBy says in words who answered and how fresh the answer is:
// "served by b (standby, running), 0 offsets / 84ms behind, partition 3".
func (r Result) ServedBy() string {
	var b strings.Builder
	fmt.Fprintf(&b, "served by %s %s", r.Node, iqerr.Standing(r.Served))
	if lag := iqerr.Lag(r.Served); lag != "" {
		b.WriteString(", " + lag + " behind")
	} else {
		b.WriteString(", lag not known")
	}
	fmt.Fprintf(&b, ", partition %d", r.Partition)
	return b.String()
}
