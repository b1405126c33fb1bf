package node

import (
	"fmt"
	"time"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A policy is a checked read policy.
type policy struct {
	mode        iqv1.ReadPolicy_Mode // never unspecified
	staleness   *time.Duration       // bound on the time lag
	offsets     *int64               // bound on the offset lag
	atLeast     metadata.Position
	wait        time.Duration
	uncommitted bool
}

// Facts are what a replica knows of itself at the moment of a read, or right after.
type facts struct {
	partition    int32
	standing     standing
	lag          metadata.LagInfo
	input        metadata.Position
	leaseValid   bool
	sampleMaxAge time.Duration
}

// judge says whether a replica with these facts may answer under a policy: REASON_UNSPECIFIED if so, else the reason and
// why in words. It is the authority: a router's choice is only a hint (I4, I8).
func judge(p policy, f facts) (iqv1.Reason, string) {
	if reason, why := judgeRole(p, f); reason != iqv1.Reason_REASON_UNSPECIFIED {
		return reason, why
	}
	if p.staleness != nil {
		if f.lag.Time == metadata.LagUnknown {
			return iqv1.Reason_REASON_STALE, "its time lag is not known yet"
		}
		if f.lag.Time > *p.staleness {
			return iqv1.Reason_REASON_STALE, fmt.Sprintf("time lag %s > %s", f.lag.Time, *p.staleness)
		}
	}
	if p.offsets != nil {
		switch {
		case f.lag.Offsets == metadata.LagUnknown:
			return iqv1.Reason_REASON_STALE, "its offset lag is not known yet"
		case f.lag.SampleAge > f.sampleMaxAge:
			return iqv1.Reason_REASON_STALE, fmt.Sprintf("the end that its offset lag is judged by is %s old > %s", f.lag.SampleAge, f.sampleMaxAge)
		case f.lag.Offsets > *p.offsets:
			return iqv1.Reason_REASON_STALE, fmt.Sprintf("offset lag %d > %d", f.lag.Offsets, *p.offsets)
		}
	}
	if len(p.atLeast) > 0 && !f.input.CoversAt(p.atLeast, f.partition) {
		return iqv1.Reason_REASON_POSITION_NOT_REACHED, "its input position does not cover the one asked for"
	}
	return iqv1.Reason_REASON_UNSPECIFIED, ""
}

// judgeRole is the part of judge that asks for the active.
func judgeRole(p policy, f facts) (iqv1.Reason, string) {
	switch p.mode {
	case iqv1.ReadPolicy_MODE_STRONG, iqv1.ReadPolicy_MODE_ACTIVE:
		switch {
		case f.standing.role != metadata.RoleActive:
			return iqv1.Reason_REASON_NO_ACTIVE, "it is " + f.standing.role.String()
		case f.standing.state != metadata.StateRunning:
			return iqv1.Reason_REASON_NO_ACTIVE, "it is " + f.standing.state.String()
		case !f.leaseValid:
			return iqv1.Reason_REASON_NO_ACTIVE, "its lease has run out: it may have been replaced"
		}
		return iqv1.Reason_REASON_UNSPECIFIED, ""
	case iqv1.ReadPolicy_MODE_BOUNDED, iqv1.ReadPolicy_MODE_ANY:
		return iqv1.Reason_REASON_UNSPECIFIED, ""
	case iqv1.ReadPolicy_MODE_UNSPECIFIED:
		return iqv1.Reason_REASON_INVALID, "no policy"
	default:
		return iqv1.Reason_REASON_INVALID, "unknown policy"
	}
}
