package routing

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
)

// Query is what Decide needs to know of a read.
type Query struct {
	metadata.Partition
	Policy Policy
	// SampleMaxAge is how old a sample of the end may be for an offset lag to be judged by it. Default 5s.
	SampleMaxAge time.Duration
	// Patient says that the read can wait: then no suspect node is asked, because it or another may report any moment.
	Patient bool
	// Outstanding is the number of the router's own queries that a node has not answered yet, for PreferLeastLoaded:
	// what nodes tell is one heartbeat old. nil counts none.
	Outstanding func(metadata.NodeID) int32
}

// Verdict is why a replica may or may not answer.
type Verdict int8

// The verdicts. All but VerdictEligible are refusals.
const (
	// VerdictEligible may answer.
	VerdictEligible Verdict = iota
	// VerdictDead is on a node that has been silent for its timeout.
	VerdictDead
	// VerdictRefused is on a node whose address refused a connection since its last report.
	VerdictRefused
	// VerdictSilent is on a suspect node while another replica may answer, or the read can wait.
	VerdictSilent
	// VerdictNotActive is not the active, which the policy asks for.
	VerdictNotActive
	// VerdictNotRunning is the active and not RUNNING.
	VerdictNotRunning
	// VerdictNoLease is the active without a valid lease.
	VerdictNoLease
	// VerdictNoSample has not learned the changelog's end yet, so no offset lag is known.
	VerdictNoSample
	// VerdictOldSample learned the changelog's end too long ago to judge an offset lag by it.
	VerdictOldSample
	// VerdictOffsets is too many offsets behind.
	VerdictOffsets
	// VerdictTimeUnknown was never caught up with any sample, so no time lag is known.
	VerdictTimeUnknown
	// VerdictTime is too long behind.
	VerdictTime
	// VerdictPosition has not reached the position asked for.
	VerdictPosition
)

// Candidate is one replica as Decide judged it.
type Candidate struct {
	metadata.ReplicaStatus
	Verdict Verdict
	// Rank is the place in the order of asking, from 1; 0 when not eligible.
	Rank int
}

// Decision is the judgement on every replica of a partition: those who may answer first, in the order of asking.
type Decision struct {
	Query Query
	// At is the moment of the decision.
	At         time.Time
	Candidates []Candidate
	// Eligible is how many of the candidates may answer.
	Eligible int
	// Followed says that no node can be the active: they follow the changelog of an application that runs elsewhere.
	Followed bool
}

// RetryAfter is when asking again for an active makes sense: a takeover is over in about that time.
const RetryAfter = 200 * time.Millisecond

// Decide orders the replicas to ask for q, best first, or says why none may answer. Same view, query and now always give
// the same decision.
//
// Who may answer, by policy:
//
//   - strong, active: the RUNNING active whose node told of a valid lease.
//   - bounded, any: every replica within the bounds that are given.
//   - one on a suspect node only while no other may answer and the read cannot wait for one; never one whose address
//     refuses connections.
//   - a bound on offsets is judged against the largest end that any node has told of, and only while the replica's own
//     sample of the end is younger than SampleMaxAge: an old end makes every lag look small (S14).
//   - a bound on time is judged against the time lag told plus the age of the report.
//   - at_least: the input position told must cover what it has of this partition. A serving active passes: it has moved on since it told, and says
//     itself what it has reached.
//
// The error is an *iqerr.StoreUnknownError, *iqerr.NotReadyError, *iqerr.InvalidError, *iqerr.NoReplicaError,
// *iqerr.NoActiveError, *iqerr.StaleError or *iqerr.PositionError; the last four name every replica, its
// numbers and the reason. The Decision is whole in either case.
func Decide(v *metadata.View, q Query, now time.Time) (Decision, error) {
	d := Decision{Query: q, At: now}
	p, err := v.Partition(q.Partition)
	if err != nil {
		return d, LookupError(err)
	}
	d.Followed = p.Followed()
	d.Candidates = make([]Candidate, 0, p.Len())
	spare := 0 // eligible replicas on nodes that are not suspect
	for i := range p.Len() {
		h := p.At(i)
		c := Candidate{ReplicaStatus: metadata.ReplicaStatus{Hosted: h, Lag: p.LagAt(h, now)}}
		c.Verdict = judge(&c, &q)
		if c.Verdict == VerdictEligible && !h.Node.Suspect {
			spare++
		}
		d.Candidates = append(d.Candidates, c)
	}
	for i := range d.Candidates {
		c := &d.Candidates[i]
		if c.Verdict == VerdictEligible && c.Node.Suspect && (spare > 0 || q.Patient) {
			c.Verdict = VerdictSilent
		}
	}
	d.rank()
	if d.Eligible == 0 {
		return d, d.refuse()
	}
	return d, nil
}

// judge gives the verdict on one replica, whatever the others are.
func judge(c *Candidate, q *Query) Verdict {
	serves := c.Serves()
	switch {
	case !c.Node.Alive:
		return VerdictDead
	case c.Node.Refused:
		return VerdictRefused
	case q.Policy.Mode.ActiveOnly() && !c.Active:
		return VerdictNotActive
	case q.Policy.Mode.ActiveOnly() && c.State != metadata.StateRunning:
		return VerdictNotRunning
	case q.Policy.Mode.ActiveOnly() && !c.LeaseValid:
		return VerdictNoLease
	}
	if bound := q.Policy.MaxOffsetLag; bound != NoBound {
		switch {
		case c.Lag.Offsets == metadata.LagUnknown:
			return VerdictNoSample
		case c.Lag.SampleAge > q.sampleMaxAge() && !serves:
			return VerdictOldSample
		case c.Lag.Offsets > bound:
			return VerdictOffsets
		}
	}
	if bound := q.Policy.MaxStaleness; bound != NoBound {
		switch {
		case c.Lag.Time == metadata.LagUnknown:
			return VerdictTimeUnknown
		case c.Lag.Time > bound:
			return VerdictTime
		}
	}
	if !serves && !c.Input.CoversAt(q.Policy.AtLeast, q.Partition.Partition) {
		return VerdictPosition
	}
	return VerdictEligible
}

func (q *Query) sampleMaxAge() time.Duration {
	if q.SampleMaxAge > 0 {
		return q.SampleMaxAge
	}
	return DefaultSampleMaxAge
}

// DefaultSampleMaxAge is how old a sample of the end may be for an offset lag to be judged by it.
const DefaultSampleMaxAge = 5 * time.Second

// rank puts the eligible first, in the order of asking. The candidates come in the view's order, the serving active
// before the others and those by freshness, and the sort is stable: so that is the order among equals that prefer leaves.
func (d *Decision) rank() {
	slices.SortStableFunc(d.Candidates, func(a, b Candidate) int {
		if c := cmp.Compare(min(a.Verdict, 1), min(b.Verdict, 1)); c != 0 {
			return c
		}
		if a.Verdict != VerdictEligible {
			return 0
		}
		return d.prefer(&a, &b)
	})
	for i := range d.Candidates {
		if d.Candidates[i].Verdict == VerdictEligible {
			d.Eligible++
			d.Candidates[i].Rank = d.Eligible
		}
	}
}

// prefer orders two eligible replicas; 0 leaves them as the view has them. One on a node that has missed a report comes
// later whatever order is asked for: if that node has just died, a read that goes to it waits until it is suspect. Of two
// that are equal for the order that is asked for, the one on a node that drains comes later: it serves as long as it is
// there, and the fewer ask it the fewer notice when it leaves.
func (d *Decision) prefer(a, b *Candidate) int {
	q := &d.Query
	if order := first(!a.Node.Late(d.At), !b.Node.Late(d.At)); order != 0 {
		return order
	}
	order := 0
	switch q.Policy.Prefer {
	case PreferLeastLoaded:
		order = cmp.Compare(q.load(a), q.load(b))
	case PreferNearest:
		near := func(c *Candidate) bool { return c.Node.Rack == q.Policy.Rack }
		order = first(near(a), near(b))
	case PreferActive:
		if order = first(a.Serves(), b.Serves()); order == 0 {
			order = cmp.Compare(b.Lag.Position, a.Lag.Position)
		}
	}
	if order == 0 {
		order = first(!a.Node.Draining, !b.Node.Draining)
	}
	return order
}

// first puts the one before that is so.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// load is the number of queries that a replica's node has in hand: its own count, or this router's where that is more.
func (q *Query) load(c *Candidate) int32 {
	if q.Outstanding == nil {
		return c.Node.InFlight
	}
	return max(c.Node.InFlight, q.Outstanding(c.Node.ID))
}

// refuse says why nobody may answer. The nearest miss gives the reason: a replica that lives and was refused for the
// policy's sake is more to the point than one that is gone.
func (d *Decision) refuse() error {
	r := iqerr.Refusals{Store: d.Query.Store, Partition: d.Query.Partition.Partition, Candidates: candidatesToProto(d)}
	var live, position bool
	for i := range d.Candidates {
		verdict := d.Candidates[i].Verdict
		live = live || (verdict != VerdictDead && verdict != VerdictRefused)
		position = position || verdict == VerdictPosition
	}
	policy := d.Query.Policy // a copy: a pointer into d would move every decision to the heap
	switch {
	case position:
		return &iqerr.PositionError{Refusals: r, AtLeast: PositionToProto(policy.AtLeast)}
	case !live && (!policy.Mode.ActiveOnly() || !d.anyAlive()):
		return &iqerr.NoReplicaError{Refusals: r}
	case policy.Mode.ActiveOnly() && !d.overBound():
		return d.noActive(r)
	case !d.overBound(): // a patient read, and only suspect nodes
		return &iqerr.NoReplicaError{Refusals: r}
	}
	stale := &iqerr.StaleError{Refusals: r}
	if policy.MaxStaleness != NoBound {
		stale.MaxStaleness = &policy.MaxStaleness
	}
	if policy.MaxOffsetLag != NoBound {
		stale.MaxOffsetLag = &policy.MaxOffsetLag
	}
	return stale
}

// noActive says that there is no active to ask, and whether trying again can help.
func (d *Decision) noActive(r iqerr.Refusals) error {
	if d.Followed && !slices.ContainsFunc(d.Candidates, func(c Candidate) bool { return c.Active }) {
		return &iqerr.NoActiveError{Refusals: r, Followed: true}
	}
	return &iqerr.NoActiveError{Refusals: r, RetryAfter: RetryAfter}
}

// Refusal is why nobody may answer. It is for a decision that has nobody eligible.
func (d *Decision) Refusal() error { return d.refuse() }

func (d *Decision) anyAlive() bool {
	return slices.ContainsFunc(d.Candidates, func(c Candidate) bool { return c.Node.Alive })
}

// overBound says whether a replica was refused for a bound and not for what it is.
func (d *Decision) overBound() bool {
	return slices.ContainsFunc(d.Candidates, func(c Candidate) bool {
		return c.Verdict >= VerdictNoSample && c.Verdict <= VerdictTime
	})
}

// LookupError says in iqerr's words why the view has no such partition.
func LookupError(err error) error {
	if e, ok := errors.AsType[*metadata.UnknownStoreError](err); ok {
		return &iqerr.StoreUnknownError{Store: e.Store, Known: e.Known}
	}
	if e, ok := errors.AsType[*metadata.NoPartitionError](err); ok {
		return iqerr.Invalid("partition", e.Partition.Partition, strings.TrimSpace(e.Error()))
	}
	if e, ok := errors.AsType[*metadata.UnassignedError](err); ok {
		return &iqerr.NotReadyError{Waiting: "an assignment: " + e.Error(), RetryAfter: RetryAfter}
	}
	return &iqerr.NotReadyError{Waiting: "the first heartbeat of a node", RetryAfter: RetryAfter}
}
