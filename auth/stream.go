package auth

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// session is the caller of a call while it runs.
type session struct {
	guard *Guard
	now   *caller
}

type sessionKey struct{}

func withCaller(ctx context.Context, s *session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

func sessionOf(ctx context.Context) *session {
	s, _ := ctx.Value(sessionKey{}).(*session)
	return s
}

// stream is the guard as an interceptor of streams. The error of the guard wins over what the handler makes of it.
func (g *Guard) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	m, err := wantsOf(info.FullMethod)
	if m.public {
		return next(srv, ss)
	}
	var c *caller
	if err == nil {
		c, err = g.authenticate(ss.Context(), time.Now())
	}
	if err != nil {
		return g.refuse(ss.Context(), info.FullMethod, c, err)
	}
	s := &guarded{ServerStream: ss, guard: g, method: m, name: info.FullMethod}
	s.caller.Store(c)
	s.ctx = withCaller(ss.Context(), &session{guard: g, now: c})
	err = next(srv, s)
	if refused := s.refused.Load(); refused != nil {
		return *refused
	}
	return s.caller.Load().grants.confineError(err)
}

// guarded is a stream whose messages are judged:
//
//  1. Each message of the caller, when it is received.
//  2. The last of them again before something is sent, when the rules, keys or authorities have changed or the credentials
//     have run out since: a watch may be open for days.
//
// A stream on which nothing is sent leaks nothing, so nobody watches the clock for it.
type guarded struct {
	grpc.ServerStream
	guard   *Guard
	method  method
	name    string
	ctx     context.Context //nolint:containedctx // a stream has one
	caller  atomic.Pointer[caller]
	last    atomic.Pointer[any]
	refused atomic.Pointer[error]
}

// Context implements grpc.ServerStream.
func (s *guarded) Context() context.Context { return s.ctx }

// RecvMsg implements grpc.ServerStream.
func (s *guarded) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	s.last.Store(&m)
	if err := s.current(time.Now()); err != nil {
		return err
	}
	if err := s.method.allowed(s.caller.Load(), m); err != nil {
		return s.refuse(err)
	}
	return nil
}

// SendMsg implements grpc.ServerStream.
func (s *guarded) SendMsg(m any) error {
	before := s.caller.Load()
	if err := s.current(time.Now()); err != nil {
		return err
	}
	if c := s.caller.Load(); c != before {
		if last := s.last.Load(); last != nil {
			if err := s.method.allowed(c, *last); err != nil {
				return s.refuse(err)
			}
		}
	}
	return s.ServerStream.SendMsg(m)
}

// current makes sure that the caller is who it was, by the newest rules.
func (s *guarded) current(now time.Time) error {
	c := s.caller.Load()
	if c.valid(s.guard.policy.Load(), s.guard.identity.Roots(), now) {
		return nil
	}
	c, err := s.guard.authenticate(s.ServerStream.Context(), now)
	if err != nil {
		return s.refuse(err)
	}
	s.caller.Store(c)
	return nil
}

func (s *guarded) refuse(err error) error {
	err = s.guard.refuse(s.ctx, s.name, s.caller.Load(), err)
	s.refused.Store(&err)
	return err
}
