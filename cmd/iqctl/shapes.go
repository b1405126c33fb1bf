package main

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// The shapes of -o json. Scripts depend on their names: add, never change. Numbers are numbers, times are milliseconds
// and say so, what is not known is null.

type replicaJSON struct {
	Node        string   `json:"node"`
	Address     string   `json:"address"`
	Store       string   `json:"store"`
	Partition   int32    `json:"partition"`
	Role        string   `json:"role"`
	State       string   `json:"state"`
	Generation  int64    `json:"generation"`
	Position    int64    `json:"position"`
	EndPosition int64    `json:"end_position"`
	OffsetLag   *int64   `json:"offset_lag"`
	TimeLagMs   *float64 `json:"time_lag_ms"`
	SampleAgeMs *float64 `json:"sample_age_ms"`
	LeaseValid  bool     `json:"lease_valid"`
}

func replicaShape(r *iqv1.ReplicaStatus) *replicaJSON {
	if r == nil {
		return nil
	}
	return &replicaJSON{
		Node: r.GetNode(), Address: r.GetAddress(), Store: r.GetStore(), Partition: r.GetPartition(),
		Role: iqerr.RoleName(r.GetRole()), State: iqerr.StateName(r.GetState()), Generation: r.GetGeneration(),
		Position: r.GetPosition(), EndPosition: r.GetEndPosition(), OffsetLag: r.OffsetLag,
		TimeLagMs: millis(r.GetTimeLag()), SampleAgeMs: millis(r.GetSampleAge()), LeaseValid: r.GetLeaseValid(),
	}
}

func replicaShapes(rs []*iqv1.ReplicaStatus) []*replicaJSON {
	shapes := make([]*replicaJSON, 0, len(rs))
	for _, r := range rs {
		shapes = append(shapes, replicaShape(r))
	}
	return shapes
}

// millis gives a duration in milliseconds with three decimals, rounded up: a lag shown is never below the true one.
func millis(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	const perMilli = float64(time.Millisecond / time.Microsecond)
	return new(math.Ceil(float64(d.AsDuration())/float64(time.Microsecond)) / perMilli)
}

type candidateJSON struct {
	Rank     int32        `json:"rank"`
	Eligible bool         `json:"eligible"`
	Why      string       `json:"why"`
	Reason   string       `json:"reason,omitempty"`
	Replica  *replicaJSON `json:"replica"`
}

func candidateShapes(cs []*iqv1.Candidate) []candidateJSON {
	shapes := make([]candidateJSON, 0, len(cs))
	for _, c := range inOrderOfAsking(cs) {
		s := candidateJSON{Rank: c.GetRank(), Eligible: c.GetEligible(), Why: c.GetWhy(), Replica: replicaShape(c.GetReplica())}
		if c.GetReason() != iqv1.Reason_REASON_UNSPECIFIED {
			s.Reason = iqerr.Name(c.GetReason())
		}
		shapes = append(shapes, s)
	}
	return shapes
}

// inOrderOfAsking puts the replicas that would be asked first, by rank, and keeps the order of the others.
func inOrderOfAsking(cs []*iqv1.Candidate) []*iqv1.Candidate {
	place := func(c *iqv1.Candidate) int32 {
		if c.GetEligible() {
			return c.GetRank()
		}
		return math.MaxInt32
	}
	return slices.SortedStableFunc(slices.Values(cs), func(a, b *iqv1.Candidate) int { return cmp.Compare(place(a), place(b)) })
}

type attemptJSON struct {
	Node      string   `json:"node"`
	Address   string   `json:"address"`
	Code      string   `json:"code"`
	Reason    string   `json:"reason,omitempty"`
	Message   string   `json:"message"`
	ElapsedMs *float64 `json:"elapsed_ms"`
}

func attemptShapes(as []*iqv1.Attempt) []attemptJSON {
	shapes := make([]attemptJSON, 0, len(as))
	for _, a := range as {
		shapes = append(shapes, attemptJSON{
			Node: a.GetNode(), Address: a.GetAddress(), Code: a.GetCode(), Reason: a.GetReason(), Message: a.GetMessage(),
			ElapsedMs: millis(a.GetElapsed()),
		})
	}
	return shapes
}

type offsetJSON struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func positionShape(p *iqv1.Position) []offsetJSON {
	shapes := make([]offsetJSON, 0, len(p.GetOffsets()))
	for _, o := range p.GetOffsets() {
		shapes = append(shapes, offsetJSON{Topic: o.GetTopic(), Partition: o.GetPartition(), Offset: o.GetOffset()})
	}
	return shapes
}

type errorJSON struct {
	Reason     string          `json:"reason,omitempty"`
	Message    string          `json:"message"`
	ExitCode   int             `json:"exit_code"`
	Candidates []candidateJSON `json:"candidates,omitempty"`
	Attempts   []attemptJSON   `json:"attempts,omitempty"`
}

func errorShape(err error) errorJSON {
	refusals, headline := iqerr.RefusalsOf(err)
	e := errorJSON{Message: oneLine(headline), ExitCode: exitCode(err)}
	if reason := iqerr.ReasonOf(err); reason != iqv1.Reason_REASON_UNSPECIFIED {
		e.Reason = iqerr.Name(reason)
	}
	if refusals != nil {
		e.Candidates, e.Attempts = candidateShapes(refusals.Candidates), attemptShapes(refusals.Attempts)
	}
	e.Attempts = append(e.Attempts, attemptShapes(otherTargets(err))...)
	return e
}

// otherTargets are the routers that were asked besides the one whose error err is.
func otherTargets(err error) []*iqv1.Attempt {
	call, ok := errors.AsType[*client.CallError](err)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(call.Attempts), func(t *iqv1.Attempt) bool { return t.GetAddress() == call.Target })
}
