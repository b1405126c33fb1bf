package routing

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// ActiveOnly says whether none but the active may answer.
func (m Mode) ActiveOnly() bool { return m == ModeStrong || m == ModeActive }

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

// Unbounded is the policy of a mode without bounds.
func Unbounded(m Mode) Policy {
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

// ParsePolicy reads a policy as flags and files write it: a mode (strong, active, any), bounds, and an order, joined by
// commas: "active", "max_staleness=5s", "any,prefer=least_loaded", "max_staleness=2s,max_offset_lag=1000". A bound
// without a mode means any replica within it.
func ParsePolicy(s string) (Policy, error) {
	p := Unbounded(0)
	var errs []error
	for part := range strings.SplitSeq(s, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		var err error
		switch key {
		case "strong", "active", "any":
			if p.Mode != 0 {
				err = fmt.Errorf("%q names a second mode", key)
			}
			p.Mode = map[string]Mode{"strong": ModeStrong, "active": ModeActive, "any": ModeAny}[key]
		case "max_staleness":
			p.MaxStaleness, err = time.ParseDuration(value)
		case "max_offset_lag":
			p.MaxOffsetLag, err = strconv.ParseInt(value, 10, 64)
		case "prefer":
			order, known := map[string]Prefer{"active": PreferActive, "least_loaded": PreferLeastLoaded, "nearest": PreferNearest}[value]
			if !known {
				err = fmt.Errorf("prefer %q is not active, least_loaded or nearest", value)
			}
			p.Prefer = order
		default:
			err = fmt.Errorf("%q is not strong, active, any, max_staleness=<duration>, max_offset_lag=<n> or prefer=<order>", part)
		}
		errs = append(errs, err)
	}
	if p.Mode == 0 {
		p.Mode = ModeActive
		if p.MaxStaleness != NoBound || p.MaxOffsetLag != NoBound {
			p.Mode = ModeAny
		}
	}
	if err := errors.Join(errs...); err != nil {
		return p, fmt.Errorf("policy %q: %w", s, err)
	}
	return p, p.Validate()
}

// Validate names the field that no policy may have, and its value.
func (p Policy) Validate() error {
	switch {
	case p.Mode < ModeStrong || p.Mode > ModeAny:
		return fmt.Errorf("mode: %d is none", int(p.Mode))
	case p.MaxStaleness < NoBound:
		return fmt.Errorf("max_staleness: %s must be 0s or more", p.MaxStaleness)
	case p.MaxOffsetLag < NoBound:
		return fmt.Errorf("max_offset_lag: %d must be 0 or more", p.MaxOffsetLag)
	case p.Mode == ModeBounded && p.MaxStaleness == NoBound && p.MaxOffsetLag == NoBound:
		return errors.New("mode: bounded needs max_staleness, max_offset_lag or both")
	case p.Prefer < PreferActive || p.Prefer > PreferNearest:
		return fmt.Errorf("prefer: %d is none", int(p.Prefer))
	}
	return nil
}
