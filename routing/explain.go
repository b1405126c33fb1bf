package routing

import (
	"fmt"
	"strings"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// why says in words why a candidate may or may not answer, with the numbers that decided it.
func (d *Decision) why(c *Candidate) string {
	policy := &d.Query.Policy
	switch c.Verdict {
	case VerdictEligible:
		switch {
		case c.Serves() && policy.Mode.ActiveOnly():
			return "the active, running under its lease"
		case c.Node.Suspect:
			return "within the policy; its node is suspect, silent for " + d.silence(c) + ", but there is no other"
		default:
			return "within the policy"
		}
	case VerdictDead:
		return "its node is dead: silent for " + d.silence(c)
	case VerdictRefused:
		return "its address " + c.Node.Address + " refuses connections"
	case VerdictSilent:
		if d.Query.Patient {
			return "its node is suspect, silent for " + d.silence(c) + ", and the read can wait"
		}
		return "its node is suspect, silent for " + d.silence(c) + ", and another replica may answer"
	case VerdictNotActive:
		if d.Followed {
			return "it only follows the changelog"
		}
		return "not the active"
	case VerdictNotRunning:
		return fmt.Sprintf("the active is %s: position %d of %d", c.State, c.Lag.Position, c.Lag.End)
	case VerdictNoLease:
		return "the active has no valid lease"
	case VerdictNoSample:
		return "its offset lag is not known yet"
	case VerdictOldSample:
		return fmt.Sprintf("its sample of the end is %s old, older than %s", iqerr.Round(c.Lag.SampleAge), d.Query.sampleMaxAge())
	case VerdictOffsets:
		return fmt.Sprintf("%d offsets behind, more than %d", c.Lag.Offsets, policy.MaxOffsetLag)
	case VerdictTimeUnknown:
		return "its time lag is not known yet"
	case VerdictTime:
		return fmt.Sprintf("%s behind, more than %s", iqerr.Round(c.Lag.Time), policy.MaxStaleness)
	case VerdictPosition:
		return "has reached " + positionText(below(c.Input, policy.AtLeast)) + " of " + positionText(policy.AtLeast)
	}
	return ""
}

func (d *Decision) silence(c *Candidate) string {
	return iqerr.Round(max(0, d.At.Sub(c.Node.Received))).String()
}

// reason is a refusal in the words of the wire.
func (v Verdict) reason() iqv1.Reason {
	switch v {
	case VerdictEligible:
		return iqv1.Reason_REASON_UNSPECIFIED
	case VerdictDead, VerdictRefused, VerdictSilent:
		return iqv1.Reason_REASON_NO_REPLICA
	case VerdictNotActive, VerdictNotRunning, VerdictNoLease:
		return iqv1.Reason_REASON_NO_ACTIVE
	case VerdictNoSample, VerdictOldSample, VerdictOffsets, VerdictTimeUnknown, VerdictTime:
		return iqv1.Reason_REASON_STALE
	case VerdictPosition:
		return iqv1.Reason_REASON_POSITION_NOT_REACHED
	}
	return iqv1.Reason_REASON_UNSPECIFIED
}

// ToProto is the decision as callers see it who ask to explain.
func (d *Decision) ToProto() *iqv1.Decision {
	return &iqv1.Decision{
		Store: d.Query.Store, Partition: d.Query.Partition.Partition, Candidates: candidatesToProto(d),
	}
}

// Unanswered is the refusal of a read whose replicas were eligible and gave no answer; failed says which of them were
// asked. The code is UNAVAILABLE, as that of a connection that breaks.
func (d *Decision) Unanswered(failed func(*Candidate) bool) error {
	r := iqerr.Refusals{Store: d.Query.Store, Partition: d.Query.Partition.Partition, Candidates: candidatesToProto(d)}
	for i, c := range r.Candidates {
		if failed(&d.Candidates[i]) {
			c.Eligible, c.Rank = false, 0
			c.Reason, c.Why = iqv1.Reason_REASON_NO_REPLICA, "was asked and gave no answer"
		}
	}
	if d.Query.Policy.Mode.ActiveOnly() {
		return d.noActive(r)
	}
	return &iqerr.NoReplicaError{Refusals: r}
}

func candidatesToProto(d *Decision) []*iqv1.Candidate {
	list := make([]*iqv1.Candidate, 0, len(d.Candidates))
	for i := range d.Candidates {
		c := &d.Candidates[i]
		list = append(list, &iqv1.Candidate{
			Replica: StatusToProto(&c.ReplicaStatus), Eligible: c.Verdict == VerdictEligible, Why: d.why(c),
			Reason: c.Verdict.reason(), Rank: int32(c.Rank),
		})
	}
	return list
}

// below is what p says of the partitions that want names.
func below(p, want metadata.Position) metadata.Position {
	part := make(metadata.Position, len(want))
	for tp := range want {
		part[tp] = p[tp]
	}
	return part
}

// maxPositionText bounds the partitions of a position that a text names.
const maxPositionText = 8

func positionText(p metadata.Position) string {
	var b strings.Builder
	for i, tp := range p.Sorted() {
		if i == maxPositionText {
			fmt.Fprintf(&b, ",… (%d in all)", len(p))
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%d", tp, p[tp])
	}
	return b.String()
}
