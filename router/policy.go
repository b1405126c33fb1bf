package router

import (
	"fmt"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// Mode is the base promise of a read.
type Mode int8

// The modes.
const (
	// ModeStrong sees every transaction committed before the read began; only the active under a lease can say so.
	ModeStrong Mode = iota + 1
	// ModeActive is the last state that the RUNNING active under a lease has applied.
	ModeActive
	// ModeBounded is any replica within the bounds.
	ModeBounded
	// ModeAny is any replica, RESTORING ones too. Bounds that are given hold all the same.
	ModeAny
)

// String is the mode as configuration and errors write it.
func (m Mode) String() string {
	switch m {
	case ModeStrong:
		return "strong"
	case ModeActive:
		return "active"
	case ModeBounded:
		return "bounded"
	case ModeAny:
		return "any"
	default:
		return fmt.Sprintf("mode(%d)", int(m))
	}
}

// activeOnly says whether none but the active may answer.
func (m Mode) activeOnly() bool { return m == ModeStrong || m == ModeActive }

// Prefer orders the replicas that may answer.
type Prefer int8

// The orders. Each falls back to the one before it, and that to freshness.
const (
	// PreferActive asks the serving active first, then the others, the freshest first.
	PreferActive Prefer = iota
	// PreferLeastLoaded asks the replica on the node with the fewest queries in flight first.
	PreferLeastLoaded
	// PreferNearest asks replicas of the caller's rack first.
	PreferNearest
)

// NoBound stands for a bound that the caller has not given.
const NoBound = -1

// Policy says which replicas may answer a read, and in what order they are asked.
type Policy struct {
	Mode Mode
	// MaxStaleness bounds the time lag; NoBound when not given.
	MaxStaleness time.Duration
	// MaxOffsetLag bounds the changelog offsets that the answer may be behind; NoBound when not given.
	MaxOffsetLag int64
	// AtLeast is the input position that the answer must cover; nil for none.
	AtLeast metadata.Position
	Prefer  Prefer
	// Rack is the caller's, for PreferNearest.
	Rack string
}

// unbounded is the policy of a mode without bounds.
func unbounded(m Mode) Policy {
	return Policy{Mode: m, MaxStaleness: NoBound, MaxOffsetLag: NoBound}
}

// String is the policy in the words of logs and tests.
func (p Policy) String() string {
	s := p.Mode.String()
	if p.MaxStaleness != NoBound {
		s += " max_staleness=" + p.MaxStaleness.String()
	}
	if p.MaxOffsetLag != NoBound {
		s += fmt.Sprintf(" max_offset_lag=%d", p.MaxOffsetLag)
	}
	if len(p.AtLeast) > 0 {
		s += " at_least=" + positionText(p.AtLeast)
	}
	return s
}
