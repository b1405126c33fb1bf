package routing

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// maxDuration is the longest time that a request may name; anything longer is a mistake in the unit.
const maxDuration = 365 * 24 * time.Hour

// PolicyFromProto checks a policy and completes it. A bound without a mode means any replica within that bound; no
// policy at all means the default one.
func PolicyFromProto(m *iqv1.ReadPolicy, def Policy) (Policy, error) {
	var errs []error
	p := Unbounded(0)
	var err error
	p.MaxStaleness, err = DurationFromProto("policy.max_staleness", m.GetMaxStaleness())
	errs = append(errs, err)
	if m != nil && m.MaxOffsetLag != nil {
		if p.MaxOffsetLag = m.GetMaxOffsetLag(); p.MaxOffsetLag < 0 {
			errs = append(errs, iqerr.Invalid("policy.max_offset_lag", p.MaxOffsetLag, "must be 0 or more"))
		}
	}
	bounded := p.MaxStaleness != NoBound || p.MaxOffsetLag != NoBound
	switch m.GetMode() {
	case iqv1.ReadPolicy_MODE_UNSPECIFIED:
		if bounded {
			p.Mode = ModeAny
		} else {
			p.Mode, p.MaxStaleness, p.MaxOffsetLag = def.Mode, def.MaxStaleness, def.MaxOffsetLag
		}
	case iqv1.ReadPolicy_MODE_STRONG:
		p.Mode = ModeStrong
	case iqv1.ReadPolicy_MODE_ACTIVE:
		p.Mode = ModeActive
	case iqv1.ReadPolicy_MODE_BOUNDED:
		p.Mode = ModeBounded
		if !bounded {
			errs = append(errs, iqerr.Invalid("policy.mode", m.GetMode().String(), "needs max_staleness, max_offset_lag or both"))
		}
	case iqv1.ReadPolicy_MODE_ANY:
		p.Mode = ModeAny
	default:
		errs = append(errs, iqerr.Invalid("policy.mode", int32(m.GetMode()), "is not a known mode"))
	}
	switch m.GetPrefer() {
	case iqv1.ReadPolicy_PREFER_UNSPECIFIED:
		p.Prefer = def.Prefer
	case iqv1.ReadPolicy_PREFER_ACTIVE:
		p.Prefer = PreferActive
	case iqv1.ReadPolicy_PREFER_LEAST_LOADED:
		p.Prefer = PreferLeastLoaded
	case iqv1.ReadPolicy_PREFER_NEAREST:
		p.Prefer = PreferNearest
	default:
		errs = append(errs, iqerr.Invalid("policy.prefer", int32(m.GetPrefer()), "is not a known order"))
	}
	p.Rack = m.GetRack()
	for i, o := range m.GetAtLeast().GetOffsets() {
		field := fmt.Sprintf("policy.at_least.offsets[%d].", i)
		if o.GetTopic() == "" {
			errs = append(errs, iqerr.Invalid(field+"topic", "", "must be a topic's name"))
		}
		if o.GetPartition() < 0 {
			errs = append(errs, iqerr.Invalid(field+"partition", o.GetPartition(), "must be 0 or more"))
		}
		if o.GetOffset() < 0 {
			errs = append(errs, iqerr.Invalid(field+"offset", o.GetOffset(), "must be 0 or more"))
		}
	}
	p.AtLeast = PositionFromProto(m.GetAtLeast())
	return p, errors.Join(errs...)
}

// DurationFromProto is NoBound for an absent duration.
func DurationFromProto(field string, m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return NoBound, nil
	}
	if err := m.CheckValid(); err != nil {
		return NoBound, iqerr.Invalid(field, fmt.Sprintf("seconds=%d nanos=%d", m.GetSeconds(), m.GetNanos()), "is not a duration")
	}
	d := m.AsDuration()
	switch {
	case d < 0:
		return NoBound, iqerr.Invalid(field, d, "must be 0s or more")
	case d > maxDuration:
		return NoBound, iqerr.Invalid(field, d, "must be at most "+maxDuration.String())
	}
	return d, nil
}

// ToProto is the policy that nodes are given: complete, so that no node applies a default of its own. It has no wait,
// because the router waits itself, at no replica in particular.
func (p Policy) ToProto(asked *iqv1.ReadPolicy) *iqv1.ReadPolicy {
	m := &iqv1.ReadPolicy{
		Mode: modeToProto(p.Mode), AtLeast: asked.GetAtLeast(), Isolation: asked.GetIsolation(),
	}
	if p.MaxStaleness != NoBound {
		m.MaxStaleness = durationpb.New(p.MaxStaleness)
	}
	if p.MaxOffsetLag != NoBound {
		m.MaxOffsetLag = &p.MaxOffsetLag
	}
	return m
}

func modeToProto(m Mode) iqv1.ReadPolicy_Mode {
	switch m {
	case ModeStrong:
		return iqv1.ReadPolicy_MODE_STRONG
	case ModeActive:
		return iqv1.ReadPolicy_MODE_ACTIVE
	case ModeBounded:
		return iqv1.ReadPolicy_MODE_BOUNDED
	case ModeAny:
		return iqv1.ReadPolicy_MODE_ANY
	}
	return iqv1.ReadPolicy_MODE_UNSPECIFIED
}
