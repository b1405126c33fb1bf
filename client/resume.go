package client

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/iqgate/iqgate/iqerr"
)

// MaxResume is how long a watch that has begun tries to go on when no target lets it, before it ends with the error.
const MaxResume = time.Minute

// resumption keeps a stream without an end going. Until it has begun, each target is asked once, as in a call. Once it has, the
// targets are asked in turn: at once after something came, then after pauses that double from firstBackoff to maxBackoff, for
// MaxResume.
type resumption struct {
	tries  *tries
	begun  bool
	broken error     // why the last stream on which something came broke
	since  time.Time // when it did
	pause  time.Duration
}

// after is called when a stream has failed; worked says whether anything came on it. It returns when the next target is to be
// asked, or the error to end with.
func (r *resumption) after(ctx context.Context, worked bool, err error, elapsed time.Duration) error {
	if !worked && !r.begun {
		return r.tries.fail(ctx, err, elapsed)
	}
	target := r.tries.target().name
	failure := iqerr.FromStatus(err)
	ended := r.tries.note(failure, elapsed)
	if worked {
		r.begun, r.broken, r.since, r.pause = true, &CallError{Target: target, Err: failure}, time.Now(), 0
	}
	if ctx.Err() != nil || !resumable(failure) || time.Since(r.since) >= MaxResume || !sleep(ctx, r.pause) {
		return ended
	}
	jitter := time.Duration(rand.Int64N(int64(firstBackoff))) //nolint:gosec // spreads clients over time, guards nothing
	r.pause = min(max(2*r.pause, firstBackoff), maxBackoff) + jitter
	return nil
}

// sleep returns false when ctx ends before d has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
