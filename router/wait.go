package router

import (
	"context"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// waitPause is the least time between two decisions of a read that waits, because views change with every heartbeat. It
// doubles, waitDoublings times at most, each time that a node fails the read although the view names it: many reads that
// wait must not hammer that node.
const (
	waitPause     = 10 * time.Millisecond
	waitDoublings = 4
)

// mayPass says whether a failure may end by itself while the read waits.
func mayPass(err error) bool {
	switch iqerr.ReasonOf(err) {
	case iqv1.Reason_REASON_NOT_READY, iqv1.Reason_REASON_NOT_HOSTED, iqv1.Reason_REASON_NO_ACTIVE,
		iqv1.Reason_REASON_NO_REPLICA, iqv1.Reason_REASON_STALE, iqv1.Reason_REASON_POSITION_NOT_REACHED,
		iqv1.Reason_REASON_CLOSING, iqv1.Reason_REASON_CORRUPT, iqv1.Reason_REASON_OVERLOADED:
		return true
	case iqv1.Reason_REASON_STORE_UNKNOWN, iqv1.Reason_REASON_INVALID, iqv1.Reason_REASON_PARTITIONS_CHANGED,
		iqv1.Reason_REASON_PAGE_LOST, iqv1.Reason_REASON_SLOW_READER, iqv1.Reason_REASON_UNAUTHENTICATED, iqv1.Reason_REASON_PERMISSION_DENIED:
		return false
	case iqv1.Reason_REASON_UNSPECIFIED:
	}
	return iqerr.Retriable(err) // a node that broke or hung
}

// waiter is a read that its policy lets wait.
type waiter struct {
	router *Router
	until  time.Time
	holds  bool // one of MaxWaiters places
}

// forNext returns when it is time to decide again: the view is newer than e, and waitPause, doubled for the failures so
// far, has passed; or for the last time, because the read's wait is over. The error is an *iqerr.OverloadedError when too many wait, an
// *iqerr.ClosingError when the router stops, and refused when the caller's own time is over.
func (w *waiter) forNext(ctx context.Context, e *edition, failures int, refused error) (over bool, err error) {
	r := w.router
	if !w.holds {
		n, limit := r.waiting.Add(1), int64(r.config.MaxWaiters)
		w.holds = true
		if n > limit {
			return false, &iqerr.OverloadedError{Node: r.name(), InFlight: n - 1, Limit: limit, RetryAfter: routing.RetryAfter}
		}
	}
	left := time.Until(w.until)
	if left <= 0 {
		return true, nil
	}
	end := time.NewTimer(left)
	defer end.Stop()
	pause := time.NewTimer(waitPause << min(failures, waitDoublings))
	defer pause.Stop()
	newer := e.superseded
	for paused := false; newer != nil || !paused; {
		select {
		case <-newer:
			newer = nil // a nil channel is never ready
		case <-pause.C:
			paused = true
		case <-end.C:
			return true, nil
		case <-ctx.Done():
			return false, refused // says more than that the caller's time is over
		case <-r.stopping:
			return false, &iqerr.ClosingError{Node: r.name()}
		}
	}
	return false, nil
}

// leave gives the place back.
func (w *waiter) leave() {
	if w.holds {
		w.router.waiting.Add(-1)
	}
}
