package client

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// ReadOption says how a read is to be answered: by which policy, in which order of replicas, and how long it may wait.
type ReadOption func(*read)

// read is one request being made. Request and policy lie in one struct so that they are one allocation.
type read struct {
	get    iqv1.GetRequest
	policy iqv1.ReadPolicy
	// hasPolicy says that some option needs the policy sent.
	hasPolicy bool
	// ownPolicy says that this call's options gave a policy, so that the client's default one is out.
	ownPolicy bool
	err       error
}

// read makes the request of a call: the client's options, then the call's.
func (c *Client) read(store string, key []byte, opts []ReadOption) (*read, error) {
	r := &read{}
	r.get.Store, r.get.Key, r.get.Application = store, key, c.opts.application
	if store == "" {
		r.fail("store", store, "is required")
	}
	for _, o := range c.opts.read {
		o(r)
	}
	r.ownPolicy = false
	for _, o := range opts {
		o(r)
	}
	if r.hasPolicy {
		r.get.Policy = &r.policy
	}
	return r, r.err
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

// Partition reads store partition p instead of the key's own. It is meant for keys that a partitioner sends to several
// partitions (KIP-837).
func Partition(p int32) ReadOption {
	return func(r *read) {
		if p < 0 {
			r.fail("partition", p, "must not be negative")
		}
		r.get.Partition = &p
	}
}

// Explain asks for Result.Decision: why each replica was chosen or refused.
func Explain() ReadOption { return explain }

func explain(r *read) { r.get.Explain = true }
