package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// MaxSilence is how long a target may send nothing on a stream, on top of the call's Wait, before the next one is asked; before
// its first message it is the attempt timeout, while there is another target to ask. What a caller takes to look at what was
// sent does not count.
const MaxSilence = 30 * time.Second

var (
	// errTaken ends a stream of which the caller has had enough.
	errTaken = errors.New("the caller has ended the loop")
	// errSilence is why a stream was left.
	errSilence = fmt.Errorf("nothing was sent for too long: %w", context.DeadlineExceeded)
	// errUnfinished is a stream that ended in order although more was to come.
	errUnfinished = fmt.Errorf("the stream ended before everything was sent: %w", io.ErrUnexpectedEOF)
)

// tries leads one stream from target to target. Without progress each target is asked once, as in a call; after any, all of
// them may be asked again.
type tries struct {
	c        *Client
	first    int64
	at       int
	worked   bool // the target asked now has made progress
	failures int  // since there was progress
	attempts []*iqv1.Attempt
	failed   *CallError
}

func (c *Client) newTries() *tries {
	first := c.first.Load()
	return &tries{c: c, first: first, at: int(first)}
}

func (t *tries) target() *target { return t.c.targets[t.at] }

// progressed forgets the failures: the target asked now does its work. It is asked first from now on.
func (t *tries) progressed() {
	t.worked, t.failures, t.attempts, t.failed = true, 0, nil, nil
	if int64(t.at) != t.first && t.c.first.CompareAndSwap(t.first, int64(t.at)) {
		t.first = int64(t.at)
	}
}

// note takes down that the target's stream failed, as package iqerr gives it, and turns to the next. It returns the error to
// end with if nobody else is asked.
func (t *tries) note(err error, elapsed time.Duration) *CallError {
	if len(t.attempts) < MaxTargets {
		t.attempts = append(t.attempts, attemptOf(t.target(), err, elapsed))
	}
	if t.failed == nil || weight(err) > weight(t.failed.Err) || !resumable(err) {
		t.failed = &CallError{Target: t.target().name, Err: err}
	}
	t.failed.Attempts = t.attempts
	t.failures++
	t.at = (t.at + 1) % len(t.c.targets)
	return t.failed
}

// fail notes a failure, and returns the error to end with when no other target can do better or all have failed.
func (t *tries) fail(ctx context.Context, err error, elapsed time.Duration) error {
	worked := t.worked
	t.worked = false
	err = iqerr.FromStatus(err)
	ended := t.note(err, elapsed)
	hopeless := len(t.c.targets) == 1 && weight(err) > weightUnreached && !worked
	if ctx.Err() != nil || !resumable(err) || t.failures >= t.c.maxAttempts() || hopeless {
		return ended
	}
	return nil
}

// resumable says whether a stream that failed with err can be gone on with, at another target or at the same one.
func resumable(err error) bool {
	switch iqerr.ReasonOf(err) { //nolint:exhaustive // the others are for all calls
	case iqv1.Reason_REASON_PAGE_LOST:
		return false
	case iqv1.Reason_REASON_SLOW_READER:
		return true
	}
	return iqerr.Retriable(err)
}

// listening ends a stream's context when nothing comes for too long.
type listening struct {
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	silence time.Duration
}

// listen begins to listen to the target that is asked now. The caller closes what is returned.
func (t *tries) listen(ctx context.Context, wait time.Duration) (context.Context, *listening) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &listening{cancel: cancel, silence: MaxSilence + wait}
	first := l.silence
	if t.failures+1 < len(t.c.targets) {
		first = min(first, t.c.opts.attemptTimeout+wait)
	}
	l.timer = time.AfterFunc(first, func() { cancel(errSilence) })
	return ctx, l
}

func (l *listening) heard()  { l.timer.Stop() }
func (l *listening) listen() { l.timer.Reset(l.silence) }

func (l *listening) close() {
	l.timer.Stop()
	l.cancel(nil)
}

// silent gives the reason of a stream's failure: the silence, if that was it.
func silent(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilence) {
		return errSilence
	}
	return err
}
