package serve

import (
	"context"
	"time"

	"github.com/iqgate/iqgate/iqerr"
)

// sendLook is the time between two looks at whether a stream may go on while its reader takes nothing.
const sendLook = 100 * time.Millisecond

// A sender sends the messages of a stream one after another in a goroutine of its own, so that whoever makes them is never
// stuck in a send: it can end the stream while the reader takes nothing. A send that blocks ends when the call that the
// stream belongs to has returned.
type sender[M any] struct {
	node string
	idle time.Duration // how long the reader may take nothing
	next chan M
	done chan error // the outcome of each send, of capacity one
	busy bool       // a send has begun whose outcome was not taken
}

// newSender begins; the caller ends it by close.
func newSender[M any](node string, idle time.Duration, send func(M) error) *sender[M] {
	s := &sender[M]{node: node, idle: idle, next: make(chan M), done: make(chan error, 1)}
	go func() {
		for m := range s.next {
			s.done <- send(m)
		}
	}()
	return s
}

func (s *sender[M]) close() { close(s.next) }

// send waits until the message before has been taken and begins to send m. In the meantime it asks goOn now and then
// whether to go on at all.
func (s *sender[M]) send(ctx context.Context, m M, goOn func() error) error {
	if err := s.flush(ctx, goOn); err != nil {
		return err
	}
	s.next <- m
	s.busy = true
	return nil
}

// flush waits until everything has been taken.
func (s *sender[M]) flush(ctx context.Context, goOn func() error) error {
	if !s.busy {
		return nil
	}
	select {
	case err := <-s.done:
		s.busy = false
		return err
	default:
	}
	began := time.Now()
	look := time.NewTicker(min(sendLook, s.idle))
	defer look.Stop()
	for {
		select {
		case err := <-s.done:
			s.busy = false
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
		if err := goOn(); err != nil {
			return err
		}
		if waited := time.Since(began); waited >= s.idle {
			return &iqerr.SlowReaderError{Node: s.node, Waited: waited}
		}
	}
}
