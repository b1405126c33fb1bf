package main

import (
	"context"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// readyPause is the time between two questions of a command that waits until somebody is ready. Servers hold reads
// themselves; all else they answer at once.
const readyPause = 100 * time.Millisecond

// whileNotReady asks, and asks again every readyPause while the reason given is NOT_READY, until wait is over or ctx ends.
// Then the last answer counts.
func whileNotReady(ctx context.Context, wait time.Duration, ask func() (iqv1.Reason, error)) error {
	until := time.Now().Add(wait)
	for {
		reason, err := ask()
		left := time.Until(until)
		if reason != iqv1.Reason_REASON_NOT_READY && iqerr.ReasonOf(err) != iqv1.Reason_REASON_NOT_READY || left <= 0 {
			return err
		}
		pause := time.NewTimer(min(readyPause, left))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}
