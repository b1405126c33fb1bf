package router

import (
	"context"
	"time"

	"github.com/iqgate/iqgate/iqerr"
)

// sender sends the messages of a stream, one after the other, and notices a caller who does not take them: while one
// message waits to be taken and the next one waits behind it for longer than idle, the stream is over. The send that hangs
// ends with the stream, which is when the handler returns.
type sender[M any] struct {
	ctx   context.Context
	name  string // the router's, for errors
	idle  time.Duration
	out   chan M
	ended chan struct{} // closed when nothing more is sent
	err   error         // why, once ended is closed
	timer *time.Timer
	over  bool // a send has failed: nothing more can be sent
}

// newSender starts a goroutine that ends with finish or ctx.
func newSender[M any](ctx context.Context, name string, idle time.Duration, send func(M) error) *sender[M] {
	s := &sender[M]{ctx: ctx, name: name, idle: idle, out: make(chan M), ended: make(chan struct{}), timer: time.NewTimer(idle)}
	go func() {
		defer close(s.ended)
		for {
			select {
			case m, more := <-s.out:
				if !more {
					return
				}
				if s.err = send(m); s.err != nil {
					return
				}
			case <-ctx.Done():
				s.err = context.Cause(ctx)
				return
			}
		}
	}()
	return s
}

// send hands a message over, which belongs to the sender from then on. The error is an *iqerr.SlowReaderError, or why the
// stream ended.
func (s *sender[M]) send(m M) error {
	s.timer.Reset(s.idle)
	select {
	case s.out <- m:
		return nil
	default:
	}
	err := s.wait(m)
	s.over = err != nil
	return err
}

func (s *sender[M]) wait(m M) error {
	select {
	case s.out <- m:
		return nil
	case <-s.ended:
		return s.err
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-s.timer.C:
		return s.slow()
	}
}

// finish waits until the last message is sent, unless a send has failed, whose error is known. Nothing is sent afterwards.
func (s *sender[M]) finish() error {
	if s.over {
		return nil
	}
	close(s.out)
	s.timer.Reset(s.idle)
	defer s.timer.Stop()
	select {
	case <-s.ended:
		return s.err
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-s.timer.C:
		return s.slow()
	}
}

func (s *sender[M]) slow() error { return &iqerr.SlowReaderError{Node: s.name, Waited: s.idle} }
