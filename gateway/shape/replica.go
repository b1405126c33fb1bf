package shape

import (
	"cmp"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Replica is one store partition on one node at one moment.
type Replica struct {
	Node        string   `json:"node" doc:"the node's id"`
	Address     string   `json:"address" doc:"the node's advertised address"`
	Store       string   `json:"store"`
	Partition   int32    `json:"partition" doc:"the store partition"`
	Role        string   `json:"role" enum:"active,standby,warmup,role unknown"`
	State       string   `json:"state" enum:"restoring,running,suspended,closed,state unknown"`
	Generation  int64    `json:"generation" doc:"the group generation under which the role was given"`
	Position    int64    `json:"position" doc:"the next changelog offset to apply"`
	EndPosition int64    `json:"end_position" doc:"the changelog's end as last learned"`
	OffsetLag   *int64   `json:"offset_lag" doc:"changelog offsets behind the end; null while not known"`
	TimeLagMs   *float64 `json:"time_lag_ms" doc:"upper bound on the staleness; null while not known"`
	SampleAgeMs *float64 `json:"sample_age_ms" doc:"age of the sample of the changelog's end"`
	LeaseValid  bool     `json:"lease_valid" doc:"the node's membership lease held (actives only)"`
}

// ReplicaOf is nil for nil.
func ReplicaOf(r *iqv1.ReplicaStatus) *Replica {
	if r == nil {
		return nil
	}
	return &Replica{
		Node: r.GetNode(), Address: r.GetAddress(), Store: r.GetStore(), Partition: r.GetPartition(),
		Role: iqerr.RoleName(r.GetRole()), State: iqerr.StateName(r.GetState()), Generation: r.GetGeneration(),
		Position: r.GetPosition(), EndPosition: r.GetEndPosition(), OffsetLag: r.OffsetLag,
		TimeLagMs: Millis(r.GetTimeLag()), SampleAgeMs: Millis(r.GetSampleAge()), LeaseValid: r.GetLeaseValid(),
	}
}

// ReplicasOf keeps the order, and is never nil.
func ReplicasOf(rs []*iqv1.ReplicaStatus) []*Replica { return each(rs, ReplicaOf) }

// ByPartition orders replicas by store and partition, the active first, then by node.
func ByPartition(a, b *iqv1.ReplicaStatus) int {
	return cmp.Or(
		cmp.Compare(a.GetStore(), b.GetStore()),
		cmp.Compare(a.GetPartition(), b.GetPartition()),
		cmp.Compare(a.GetRole(), b.GetRole()),
		cmp.Compare(a.GetNode(), b.GetNode()),
	)
}

// each is never nil.
func each[A, B any](list []A, of func(A) B) []B {
	shapes := make([]B, 0, len(list))
	for _, x := range list {
		shapes = append(shapes, of(x))
	}
	return shapes
}

// Millis gives a duration in milliseconds with three decimals, rounded up: a lag shown is never below the true one. It is nil for
// nil.
func Millis(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	const perMilli = float64(time.Millisecond / time.Microsecond)
	return new(math.Ceil(float64(d.AsDuration())/float64(time.Microsecond)) / perMilli)
}

// Candidate is what a router thinks of one replica for one read.
type Candidate struct {
	Rank     int32    `json:"rank" doc:"place in the order of asking, from 1; 0 when not eligible"`
	Eligible bool     `json:"eligible"`
	Why      string   `json:"why"`
	Reason   string   `json:"reason,omitempty" doc:"the refusal's reason when not eligible"`
	Replica  *Replica `json:"replica"`
}

// InOrderOfAsking is a new list: the replicas that would be asked first, by rank, and the others in the order that they had.
func InOrderOfAsking(cs []*iqv1.Candidate) []*iqv1.Candidate {
	place := func(c *iqv1.Candidate) int32 {
		if c.GetEligible() {
			return c.GetRank()
		}
		return math.MaxInt32
	}
	return slices.SortedStableFunc(slices.Values(cs), func(a, b *iqv1.Candidate) int { return cmp.Compare(place(a), place(b)) })
}

// CandidatesOf puts them in the order of [InOrderOfAsking].
func CandidatesOf(cs []*iqv1.Candidate) []Candidate {
	return each(InOrderOfAsking(cs), func(c *iqv1.Candidate) Candidate {
		s := Candidate{Rank: c.GetRank(), Eligible: c.GetEligible(), Why: c.GetWhy(), Replica: ReplicaOf(c.GetReplica())}
		if c.GetReason() != iqv1.Reason_REASON_UNSPECIFIED {
			s.Reason = iqerr.Name(c.GetReason())
		}
		return s
	})
}

// Attempt is a replica that was asked and did not answer.
type Attempt struct {
	Node      string   `json:"node"`
	Address   string   `json:"address"`
	Code      string   `json:"code" doc:"the gRPC status code, by name"`
	Reason    string   `json:"reason,omitempty"`
	Message   string   `json:"message"`
	ElapsedMs *float64 `json:"elapsed_ms"`
}

// AttemptsOf keeps the order.
func AttemptsOf(as []*iqv1.Attempt) []Attempt {
	return each(as, func(a *iqv1.Attempt) Attempt {
		return Attempt{
			Node: a.GetNode(), Address: a.GetAddress(), Code: a.GetCode(), Reason: a.GetReason(), Message: a.GetMessage(),
			ElapsedMs: Millis(a.GetElapsed()),
		}
	})
}

// Offset says that every record below it is covered.
type Offset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// PositionOf lists the offsets of a position.
func PositionOf(p *iqv1.Position) []Offset {
	return each(p.GetOffsets(), func(o *iqv1.PartitionOffset) Offset {
		return Offset{Topic: o.GetTopic(), Partition: o.GetPartition(), Offset: o.GetOffset()}
	})
}

// Read says who answered for a partition, and in which state it was read.
type Read struct {
	Partition     int32    `json:"partition"`
	Served        *Replica `json:"served"`
	InputPosition []Offset `json:"input_position" doc:"per input partition, the offset below which every record's effect was read"`
}

// ReadOf is one read.
func ReadOf(r *iqv1.PartitionRead) Read {
	return Read{Partition: r.GetPartition(), Served: ReplicaOf(r.GetServed()), InputPosition: PositionOf(r.GetInputPosition())}
}

// ReadsOf keeps the order.
func ReadsOf(rs []*iqv1.PartitionRead) []Read { return each(rs, ReadOf) }
