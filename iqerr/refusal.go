package iqerr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Refusals says, replica by replica, why a read of one store partition was not answered.
type Refusals struct {
	// Store and Partition name what was read.
	Store     string
	Partition int32
	// Candidates are the replicas known, with their lags and why each may not answer. A node names only itself.
	Candidates []*iqv1.Candidate
	// Attempts are the replicas that were really asked, in order, with what they said.
	Attempts []*iqv1.Attempt
}

func (r *Refusals) encode(d *details) {
	d.put(keyStore, r.Store)
	d.putInt(keyPartition, int64(r.Partition))
	d.add(r.proto())
}

// proto gives the refusals as the wire detail, every list and text cut at its bound.
func (r *Refusals) proto() *iqv1.ReplicaRefusals {
	m := &iqv1.ReplicaRefusals{Store: r.Store, Partition: r.Partition}
	for _, c := range atMost(r.Candidates, maxReplicas) {
		if len(c.GetWhy()) > maxTextBytes {
			c = proto.CloneOf(c)
			c.Why = clip(c.GetWhy())
		}
		m.Candidates = append(m.Candidates, c)
	}
	for _, a := range atMost(r.Attempts, maxReplicas) {
		if len(a.GetMessage()) > maxTextBytes {
			a = proto.CloneOf(a)
			a.Message = clip(a.GetMessage())
		}
		m.Attempts = append(m.Attempts, a)
	}
	return m
}

func decodeRefusals(d *details) Refusals {
	m := d.refusals()
	return Refusals{
		Store: d.get(keyStore), Partition: d.getInt32(keyPartition),
		Candidates: m.GetCandidates(), Attempts: m.GetAttempts(),
	}
}

// RefusalsOf gives the refusals of an error that has some, and its text without them, so that a program can show them
// line by line. The refusals are nil when err has none; the text is err's own then.
func RefusalsOf(err error) (*Refusals, string) {
	e, ok := errors.AsType[interface {
		error
		Headline() string
		refusals() *Refusals
	}](err)
	if !ok {
		return nil, err.Error()
	}
	return e.refusals(), e.Headline()
}

func (r *Refusals) refusals() *Refusals { return r }

// headline gives "store/partition: what".
func (r *Refusals) headline(what string) string {
	return fmt.Sprintf("%s/%d: %s", r.Store, r.Partition, what)
}

// text gives "headline: each candidate; asked each attempt".
func (r *Refusals) text(headline string) string {
	var b strings.Builder
	b.WriteString(headline)
	sep := ": "
	for _, c := range atMost(r.Candidates, maxReplicas) {
		b.WriteString(sep + Describe(c))
		sep = "; "
	}
	for _, a := range atMost(r.Attempts, maxReplicas) {
		b.WriteString(sep + DescribeAttempt(a))
		sep = "; "
	}
	return b.String()
}

// keyFollowed tells NoActiveError.Followed.
const keyFollowed = "followed"

// NoActiveError says that no replica is a RUNNING active under a valid lease, which the read's policy asks for.
type NoActiveError struct {
	Refusals
	// RetryAfter is when trying again makes sense; 0 gives no hint.
	RetryAfter time.Duration
	// Followed says that the store is one that nodes only follow (replica mode), so that none of them ever becomes its active.
	Followed bool
}

func (e *NoActiveError) Error() string { return e.text(e.Headline()) }

// Headline is the text without the replicas.
func (e *NoActiveError) Headline() string {
	if e.Followed {
		return e.headline("has no active here: it is followed from the changelog of an application that runs elsewhere (replica mode); " +
			"ask with any, max_staleness or max_offset_lag, with at_least too, or have the application report to the router")
	}
	return e.headline("no replica is active, running and under a valid lease")
}

// Unwrap gives ErrNoActive.
func (e *NoActiveError) Unwrap() error { return ErrNoActive }

func (e *NoActiveError) encode(d *details) {
	e.Refusals.encode(d)
	d.retryAfter(e.RetryAfter)
	if e.Followed {
		d.put(keyFollowed, "true")
	}
}

func decodeNoActive(d *details) error {
	return &NoActiveError{Refusals: decodeRefusals(d), RetryAfter: d.getRetryAfter(), Followed: d.get(keyFollowed) == "true"}
}

// NoReplicaError says that nobody alive holds the partition.
type NoReplicaError struct {
	Refusals
}

func (e *NoReplicaError) Error() string { return e.text(e.Headline()) }

// Headline is the text without the replicas.
func (e *NoReplicaError) Headline() string { return e.headline("no replica is alive") }

// Unwrap gives ErrNoReplica.
func (e *NoReplicaError) Unwrap() error { return ErrNoReplica }

func decodeNoReplica(d *details) error { return &NoReplicaError{Refusals: decodeRefusals(d)} }

// StaleError says that replicas live, but none is within the bounds that the read asked for.
type StaleError struct {
	Refusals
	// MaxStaleness is the bound on the time lag; nil when none was asked for.
	MaxStaleness *time.Duration
	// MaxOffsetLag is the bound on the offset lag, in changelog offsets; nil when none was asked for.
	MaxOffsetLag *int64
}

func (e *StaleError) Error() string { return e.text(e.Headline()) }

// Headline is the text without the replicas.
func (e *StaleError) Headline() string {
	var bounds []string
	if e.MaxStaleness != nil {
		bounds = append(bounds, fmt.Sprintf("max_staleness %s", *e.MaxStaleness))
	}
	if e.MaxOffsetLag != nil {
		bounds = append(bounds, fmt.Sprintf("max_offset_lag %d", *e.MaxOffsetLag))
	}
	if len(bounds) == 0 {
		bounds = []string{"the read policy"}
	}
	return e.headline("no replica within " + strings.Join(bounds, " and "))
}

// Unwrap gives ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

func (e *StaleError) encode(d *details) {
	e.Refusals.encode(d)
	if e.MaxStaleness != nil {
		d.putDuration(keyMaxStaleness, *e.MaxStaleness)
	}
	if e.MaxOffsetLag != nil {
		d.putInt(keyMaxOffsetLag, *e.MaxOffsetLag)
	}
	// The smallest lags, for callers that read metadata and no details: the bounds that would have been met.
	var offsets []int64
	var times []time.Duration
	for _, c := range e.Candidates {
		if c.GetReplica() != nil && c.GetReplica().OffsetLag != nil {
			offsets = append(offsets, c.GetReplica().GetOffsetLag())
		}
		if c.GetReplica().GetTimeLag() != nil {
			times = append(times, c.GetReplica().GetTimeLag().AsDuration())
		}
	}
	if len(offsets) > 0 {
		d.putInt(keyBestOffsetLag, slices.Min(offsets))
	}
	if len(times) > 0 {
		d.putDuration(keyBestTimeLag, slices.Min(times))
	}
}

func decodeStale(d *details) error {
	return &StaleError{
		Refusals:     decodeRefusals(d),
		MaxStaleness: optional(d, keyMaxStaleness, parseDuration),
		MaxOffsetLag: optional(d, keyMaxOffsetLag, parseInt),
	}
}

// PositionError says that replicas live, but none has reached the input position that the read asked for.
type PositionError struct {
	Refusals
	// AtLeast is the position asked for. Cut at maxPositionSent topic partitions on the wire; the caller has it whole.
	AtLeast *iqv1.Position
}

func (e *PositionError) Error() string { return e.text(e.Headline()) }

// Headline is the text without the replicas.
func (e *PositionError) Headline() string {
	return e.headline("no replica has reached at_least " + positionText(e.AtLeast))
}

// Unwrap gives ErrPositionNotReached.
func (e *PositionError) Unwrap() error { return ErrPositionNotReached }

func (e *PositionError) encode(d *details) {
	e.Refusals.encode(d)
	if e.AtLeast != nil {
		d.put(keyAtLeast, clip(positionText(e.AtLeast)))
		d.add(&iqv1.Position{Offsets: atMost(e.AtLeast.GetOffsets(), maxPositionSent)})
	}
}

func decodePosition(d *details) error {
	e := &PositionError{Refusals: decodeRefusals(d)}
	if p := detail[*iqv1.Position](d); p != nil {
		e.AtLeast = p
	}
	return e
}
