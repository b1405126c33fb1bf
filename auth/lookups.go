package auth

import (
	"context"
	"time"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// CheckLookup judges one lookup of a stream of them, each of which is a read like Get: by who the caller of the stream is now,
// whatever it was when the stream began. ctx is that of the stream, or made of it. Where no Guard let the stream in, there is
// nothing to judge. The error is a gRPC status.
func CheckLookup(ctx context.Context, store string, key []byte) error {
	s := sessionOf(ctx)
	if s == nil {
		return nil
	}
	g, c, now := s.guard, s.now, time.Now()
	var err error
	if !c.valid(g.policy.Load(), g.identity.Roots(), now) {
		c, err = g.authenticate(ctx, now)
	}
	if err == nil {
		err = c.grants.allow([]Access{{Action: Read, Store: store, Keys: []Range{Point(key)}}})
	}
	if err != nil {
		return g.refuse(ctx, iqv1.QueryService_Lookups_FullMethodName, c, err)
	}
	return nil
}

// IsForwarded says whether what is asked of a node under ctx must say for whom: ctx is of a call that a Guard let in. Only a
// call of its own can say that, since a stream that several callers share has one caller.
func IsForwarded(ctx context.Context) bool { return sessionOf(ctx) != nil }
