package serve

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

// judge says whether a replica may answer under a policy, by what it knew of itself at the moment of a read, or right after:
// REASON_UNSPECIFIED if so, else the reason and why in words. sampleMaxAge is how old the end may be that an offset lag is
// judged by. It is the authority: a router's choice is only a hint (I4, I8).
func judge(p policy, r metadata.Replica, sampleMaxAge time.Duration) (iqv1.Reason, string) {
	if reason, why := judgeRole(p, r); reason != iqv1.Reason_REASON_UNSPECIFIED {
		return reason, why
	}
	if p.staleness != nil {
		if r.Lag.Time == metadata.LagUnknown {
			return iqv1.Reason_REASON_STALE, "its time lag is not known yet"
		}
		if r.Lag.Time > *p.staleness {
			return iqv1.Reason_REASON_STALE, fmt.Sprintf("time lag %s > %s", r.Lag.Time, *p.staleness)
		}
	}
	if p.offsets != nil {
		switch {
		case r.Lag.Offsets == metadata.LagUnknown:
			return iqv1.Reason_REASON_STALE, "its offset lag is not known yet"
		case r.Lag.SampleAge > sampleMaxAge:
			return iqv1.Reason_REASON_STALE, fmt.Sprintf("the end that its offset lag is judged by is %s old > %s", r.Lag.SampleAge, sampleMaxAge)
		case r.Lag.Offsets > *p.offsets:
			return iqv1.Reason_REASON_STALE, fmt.Sprintf("offset lag %d > %d", r.Lag.Offsets, *p.offsets)
		}
	}
	if len(p.atLeast) > 0 && !r.Input.CoversAt(p.atLeast, r.Partition.Partition) {
		return iqv1.Reason_REASON_POSITION_NOT_REACHED, "its input position does not cover the one asked for"
	}
	return iqv1.Reason_REASON_UNSPECIFIED, ""
}

// judgeRole is the part of judge that asks for the active.
func judgeRole(p policy, r metadata.Replica) (iqv1.Reason, string) {
	switch p.mode {
	case iqv1.ReadPolicy_MODE_STRONG, iqv1.ReadPolicy_MODE_ACTIVE:
		switch {
		case r.Role != metadata.RoleActive:
			return iqv1.Reason_REASON_NO_ACTIVE, "it is " + r.Role.String()
		case r.State != metadata.StateRunning:
			return iqv1.Reason_REASON_NO_ACTIVE, "it is " + r.State.String()
		case !r.LeaseValid:
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
