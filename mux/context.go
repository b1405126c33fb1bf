package mux

import (
	"context"
	"sync"
	"time"
)

// lookupContext is the context of one lookup at the server. Most lookups are answered without anybody waiting for their end, so it
// has a timer and a channel only from the first Done on.
type lookupContext struct {
	stream   context.Context //nolint:containedctx // it is a context
	deadline time.Time       // zero: none

	mu     sync.Mutex
	err    error           // why it has ended, when that is known without full
	full   context.Context //nolint:containedctx // the same, once somebody waits
	cancel context.CancelFunc
}

var _ context.Context = (*lookupContext)(nil)

// Deadline implements context.Context.
func (c *lookupContext) Deadline() (time.Time, bool) {
	if !c.deadline.IsZero() {
		return c.deadline, true
	}
	return c.stream.Deadline()
}

// Done implements context.Context.
func (c *lookupContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full == nil {
		if c.deadline.IsZero() {
			c.full, c.cancel = context.WithCancel(c.stream)
		} else {
			c.full, c.cancel = context.WithDeadline(c.stream, c.deadline)
		}
		if c.err != nil {
			c.cancel()
		}
	}
	return c.full.Done()
}

// Err implements context.Context.
func (c *lookupContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
	case c.full != nil:
		c.err = c.full.Err()
	case c.stream.Err() != nil:
		c.err = c.stream.Err()
	case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		c.err = context.DeadlineExceeded
	}
	return c.err
}

// Value implements context.Context.
func (c *lookupContext) Value(key any) any {
	c.mu.Lock()
	full := c.full
	c.mu.Unlock()
	if full != nil { // so that contexts made of this one are told of its end without a goroutine
		return full.Value(key)
	}
	return c.stream.Value(key)
}

// end cancels it: its lookup was given up, or is answered.
func (c *lookupContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = context.Canceled
		if c.full != nil && c.full.Err() != nil {
			c.err = c.full.Err()
		}
	}
	if c.cancel != nil {
		c.cancel()
	}
}
