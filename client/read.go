package client

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// ReadOption says what a call is to read and how it is to be answered: by which policy, in which order of replicas, and how
// long it may wait. Each names the calls that it is for, where it is not for all; at another it is an error that names it.
type ReadOption func(*read)

// read is one request being made. Request and policy lie in one struct so that they are one allocation.
type read struct {
	get    iqv1.GetRequest
	policy iqv1.ReadPolicy
	call   call
	// wide is what calls for more than one key have on top; nil for others.
	wide *wide
	// hasPolicy says that some option needs the policy sent.
	hasPolicy bool
	// ownPolicy says that this call's options gave a policy, so that the client's default one is out.
	ownPolicy bool
	// lenient passes over options that are not for the call: those of the client and of a session are for any.
	lenient bool
	err     error
}

// read makes the request of a call for one key: the client's options, the session's, then the call's.
func (c *Client) read(call call, s *Session, store string, key []byte, opts []ReadOption) (*read, error) {
	r := &read{call: call}
	r.get.Key = key
	return r, c.prepare(r, s, store, opts)
}

func (c *Client) prepare(r *read, s *Session, store string, opts []ReadOption) error {
	r.get.Store, r.get.Application = store, c.opts.application
	if store == "" {
		r.fail("store", store, "is required")
	}
	r.lenient = true
	for _, o := range c.opts.read {
		o(r)
	}
	if s != nil {
		r.ownPolicy = false
		for _, o := range s.opts {
			o(r)
		}
	}
	r.lenient, r.ownPolicy = false, false
	for _, o := range opts {
		o(r)
	}
	if r.hasPolicy {
		r.get.Policy = &r.policy
	}
	return r.err
}

// takes says whether an option is for this call, and notes that it is not.
func (r *read) takes(field string, value any, calls call) bool {
	if r.call&calls != 0 {
		return true
	}
	if !r.lenient {
		r.fail(field, value, "is not for "+r.call.String())
	}
	return false
}

func (r *read) fail(field string, value any, problem string) {
	r.err = errors.Join(r.err, iqerr.Invalid(field, value, problem))
}

// own drops the client's default policy when the call's first option of a policy is met.
func (r *read) own() {
	r.hasPolicy = true
	if !r.ownPolicy {
		r.policy.Mode, r.policy.MaxStaleness, r.policy.MaxOffsetLag = iqv1.ReadPolicy_MODE_UNSPECIFIED, nil, nil
	}
	r.ownPolicy = true
}

func (r *read) mode(mode iqv1.ReadPolicy_Mode) {
	r.own()
	switch was := r.policy.GetMode(); was {
	case iqv1.ReadPolicy_MODE_UNSPECIFIED, iqv1.ReadPolicy_MODE_BOUNDED, mode:
		r.policy.Mode = mode
	case iqv1.ReadPolicy_MODE_STRONG, iqv1.ReadPolicy_MODE_ACTIVE, iqv1.ReadPolicy_MODE_ANY:
		r.fail("policy.mode", mode, "contradicts "+was.String()+"; give one of them")
	}
}

// bounded is the mode of a bound, unless another is given: then the bound must hold as well.
func (r *read) bounded() {
	r.own()
	if r.policy.GetMode() == iqv1.ReadPolicy_MODE_UNSPECIFIED {
		r.policy.Mode = iqv1.ReadPolicy_MODE_BOUNDED
	}
}

func (r *read) wait() time.Duration { return r.policy.GetWait().AsDuration() }

// Strong asks the active, under a lease valid before and after the read, and waits for a commit in flight: the answer has
// every transaction committed before the request began.
func Strong() ReadOption { return strong }

func strong(r *read) { r.mode(iqv1.ReadPolicy_MODE_STRONG) }

// Active asks the running active under a valid lease: the last state that it applied.
func Active() ReadOption { return active }

func active(r *read) { r.mode(iqv1.ReadPolicy_MODE_ACTIVE) }

// Any takes whatever replica there is, restoring ones too; the result says how far behind it is.
func Any() ReadOption { return anyReplica }

func anyReplica(r *read) { r.mode(iqv1.ReadPolicy_MODE_ANY) }

// MaxStaleness takes any replica whose time lag is at most d: the answer has everything committed up to d ago. Together
// with MaxOffsetLag both must hold, and together with Strong, Active or Any that too.
func MaxStaleness(d time.Duration) ReadOption {
	return func(r *read) {
		if d < 0 {
			r.fail("policy.max_staleness", d, "must not be negative")
		}
		r.bounded()
		r.policy.MaxStaleness = durationpb.New(d)
	}
}

// MaxOffsetLag takes any replica that is at most n changelog offsets behind. Together with MaxStaleness both must hold.
func MaxOffsetLag(n int64) ReadOption {
	return func(r *read) {
		if n < 0 {
			r.fail("policy.max_offset_lag", n, "must not be negative")
		}
		r.bounded()
		r.policy.MaxOffsetLag = &n
	}
}

// AtLeast takes only replicas whose input position covers p, on top of the policy: with the Result.InputPosition of an
// earlier read, this one cannot go back behind it; with the offset after that of a record just produced, it has that record's
// effect.
func AtLeast(p *iqv1.Position) ReadOption {
	return func(r *read) { r.hasPolicy, r.policy.AtLeast = true, p }
}

// PreferActive asks the active first, then standbys, the freshest first. This is the server's default.
func PreferActive() ReadOption { return preferActive }

func preferActive(r *read) { r.hasPolicy, r.policy.Prefer = true, iqv1.ReadPolicy_PREFER_ACTIVE }

// LeastLoaded asks, of the replicas within the policy, the one with the fewest requests in flight first.
func LeastLoaded() ReadOption { return leastLoaded }

func leastLoaded(r *read) { r.hasPolicy, r.policy.Prefer = true, iqv1.ReadPolicy_PREFER_LEAST_LOADED }

// Nearest asks, of the replicas within the policy, those of the given rack first.
func Nearest(rack string) ReadOption {
	return func(r *read) {
		r.hasPolicy, r.policy.Prefer, r.policy.Rack = true, iqv1.ReadPolicy_PREFER_NEAREST, rack
	}
}

// Wait lets the server hold the read until a replica qualifies or d has passed. Without it a read that nobody may answer
// fails at once.
func Wait(d time.Duration) ReadOption {
	return func(r *read) {
		if d < 0 {
			r.fail("policy.wait", d, "must not be negative")
		}
		r.hasPolicy, r.policy.Wait = true, durationpb.New(d)
	}
}

// ReadUncommitted shows the active's writes of the open transaction as well; only the active can.
func ReadUncommitted() ReadOption { return readUncommitted }

func readUncommitted(r *read) {
	r.hasPolicy, r.policy.Isolation = true, iqv1.ReadPolicy_ISOLATION_READ_UNCOMMITTED
}

// Partition reads store partition p instead of the key's own, or limits a scan, count or watch to it. For one key it is
// meant where a partitioner sends the key to several partitions (KIP-837). Not for MultiGet.
func Partition(p int32) ReadOption {
	return func(r *read) {
		switch {
		case !r.takes("partition", p, callGet|callWide):
		case p < 0:
			r.fail("partition", p, "must not be negative")
		case r.wide != nil:
			r.wide.selection.Partitions = append(r.wide.selection.Partitions, p)
		default:
			r.get.Partition = &p
		}
	}
}

// InWindow names the window of a window store by its start: which is required to Get from one.
func InWindow(start time.Time) ReadOption {
	return func(r *read) {
		if r.takes("window_start", start, callGet) {
			r.get.WindowStartMs = new(start.UnixMilli())
		}
	}
}

// InSession names the session of a session store by its start and its end, both included: which is required to Get from one.
func InSession(start, end time.Time) ReadOption {
	return func(r *read) {
		if !r.takes("session", start, callGet) {
			return
		}
		if end.Before(start) {
			r.fail("session_end", end, "is before the start")
		}
		r.get.WindowStartMs, r.get.SessionEndMs = new(start.UnixMilli()), new(end.UnixMilli())
	}
}

// AsOf asks a versioned store for the versions that were valid at t. Without it the latest count. Not for Watch, nor with Times.
func AsOf(t time.Time) ReadOption {
	return func(r *read) {
		if r.takes("as_of", t, callGet|callMultiGet|callScan|callCount) {
			r.get.AsOfMs = new(t.UnixMilli())
		}
	}
}

// Explain asks for Result.Decision: why each replica was chosen or refused. For Get.
func Explain() ReadOption { return explain }

func explain(r *read) {
	if r.takes("explain", true, callGet) {
		r.get.Explain = true
	}
}
