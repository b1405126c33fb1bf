package serve

import (
	"errors"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/wire"
)

// policyOf checks a read policy; every bad field is reported at once. A policy without a mode is bounded when it has a
// bound, else it is def.
func policyOf(rp *iqv1.ReadPolicy, def iqv1.ReadPolicy_Mode) (policy, error) {
	p := policy{mode: rp.GetMode()}
	var errs []error
	bad := func(field string, value any, problem string) {
		errs = append(errs, iqerr.Invalid(field, value, problem))
	}
	if d := rp.GetMaxStaleness(); d != nil {
		if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
			bad("policy.max_staleness", d.AsDuration(), "must be a duration that is not negative")
		}
		v := d.AsDuration()
		p.staleness = &v
	}
	if rp != nil && rp.MaxOffsetLag != nil {
		if rp.GetMaxOffsetLag() < 0 {
			bad("policy.max_offset_lag", rp.GetMaxOffsetLag(), "must not be negative")
		}
		p.offsets = rp.MaxOffsetLag
	}
	if d := rp.GetWait(); d != nil {
		if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
			bad("policy.wait", d.AsDuration(), "must be a duration that is not negative")
		}
		p.wait = d.AsDuration()
	}
	for _, o := range rp.GetAtLeast().GetOffsets() {
		switch {
		case o.GetTopic() == "":
			bad("policy.at_least.offsets.topic", "", "must be given")
		case o.GetPartition() < 0:
			bad("policy.at_least.offsets.partition", o.GetPartition(), "must not be negative")
		case o.GetOffset() < 0:
			bad("policy.at_least.offsets.offset", o.GetOffset(), "must not be negative")
		}
	}
	p.atLeast = wire.PositionOf(rp.GetAtLeast())
	switch rp.GetMode() {
	case iqv1.ReadPolicy_MODE_UNSPECIFIED:
		p.mode = def
		if p.staleness != nil || p.offsets != nil {
			p.mode = iqv1.ReadPolicy_MODE_BOUNDED
		}
	case iqv1.ReadPolicy_MODE_BOUNDED:
		if p.staleness == nil && p.offsets == nil {
			bad("policy.mode", rp.GetMode(), "needs max_staleness or max_offset_lag")
		}
	case iqv1.ReadPolicy_MODE_STRONG, iqv1.ReadPolicy_MODE_ACTIVE, iqv1.ReadPolicy_MODE_ANY:
	default:
		bad("policy.mode", int32(rp.GetMode()), "is no mode")
	}
	switch rp.GetPrefer() {
	case iqv1.ReadPolicy_PREFER_UNSPECIFIED, iqv1.ReadPolicy_PREFER_ACTIVE, iqv1.ReadPolicy_PREFER_LEAST_LOADED, iqv1.ReadPolicy_PREFER_NEAREST:
	default:
		bad("policy.prefer", int32(rp.GetPrefer()), "is no preference")
	}
	switch rp.GetIsolation() {
	case iqv1.ReadPolicy_ISOLATION_UNSPECIFIED, iqv1.ReadPolicy_ISOLATION_READ_COMMITTED:
	case iqv1.ReadPolicy_ISOLATION_READ_UNCOMMITTED:
		p.uncommitted = true
	default:
		bad("policy.isolation", int32(rp.GetIsolation()), "is no isolation")
	}
	return p, errors.Join(errs...)
}

// candidate tells a refusal of this node's replica in the words of the wire.
func candidate(s *iqv1.ReplicaStatus, reason iqv1.Reason, why string) *iqv1.Candidate {
	return &iqv1.Candidate{Replica: s, Eligible: reason == iqv1.Reason_REASON_UNSPECIFIED, Why: why, Reason: reason}
}

// noActiveRetry is when a caller that asks for the active should try again.
const noActiveRetry = 250 * time.Millisecond

// refuse makes the error for a judgement, with the numbers.
func (s *Server) refuse(p policy, id metadata.Partition, c *iqv1.Candidate, wanted *iqv1.Position) error {
	r := iqerr.Refusals{Store: id.Store, Partition: id.Partition, Candidates: []*iqv1.Candidate{c}}
	switch c.GetReason() { //nolint:exhaustive // the judge gives no other reason
	case iqv1.Reason_REASON_NO_ACTIVE:
		if s.cfg.Followed {
			return &iqerr.NoActiveError{Refusals: r, Followed: true}
		}
		return &iqerr.NoActiveError{Refusals: r, RetryAfter: noActiveRetry}
	case iqv1.Reason_REASON_POSITION_NOT_REACHED:
		return &iqerr.PositionError{Refusals: r, AtLeast: wanted}
	default:
		return &iqerr.StaleError{Refusals: r, MaxStaleness: p.staleness, MaxOffsetLag: p.offsets}
	}
}
