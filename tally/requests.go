package tally

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Call is which of the query service's methods was called.
type Call int8

// The calls. A lookup of a Lookups stream is a Get.
const (
	Get Call = iota
	MultiGet
	Scan
	Count
	Watch
	calls
)

// String is the call as a label has it.
func (c Call) String() string {
	switch c {
	case Get:
		return "get"
	case MultiGet:
		return "multi_get"
	case Scan:
		return "scan"
	case Count:
		return "count"
	case Watch:
		return "watch"
	case calls:
	}
	return "unknown"
}

// Outcome is how a request or read ended: well, for one of the wire's reasons, or otherwise.
type Outcome int8

// The outcomes that are no reason. The reasons stand between OK and Canceled by their numbers.
const (
	// OK is an answer, found or not.
	OK Outcome = 0
	// Canceled says that the caller has gone.
	Canceled Outcome = lastReason + iota
	// TimedOut says that the caller's time was over.
	TimedOut
	// Failed is every other failure; the log of the program tells more.
	Failed
	outcomes
)

// lastReason is the largest number of a reason.
const lastReason = Outcome(iqv1.Reason_REASON_PERMISSION_DENIED)

// OutcomeOf is the outcome of a request that ended with err.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OK
	}
	if reason := iqerr.ReasonOf(err); reason > 0 && Outcome(reason) <= lastReason {
		return Outcome(reason)
	}
	switch err = iqerr.FromStatus(err); {
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	}
	return Failed
}

// String is the outcome as a label has it: ok, a reason in small letters, canceled, deadline_exceeded or error.
func (o Outcome) String() string {
	switch {
	case o == OK:
		return "ok"
	case o > 0 && o <= lastReason:
		return strings.ToLower(iqerr.Name(iqv1.Reason(o)))
	case o == Canceled:
		return "canceled"
	case o == TimedOut:
		return "deadline_exceeded"
	}
	return "error"
}

// Requests counts the requests that callers make. NewRequests makes one.
type Requests struct {
	ended [calls][outcomes]atomic.Int64
	took  [calls]*Histogram
}

// NewRequests makes counters that are 0.
func NewRequests() *Requests {
	r := &Requests{}
	for i := range r.took {
		r.took[i] = newHistogram(requestBounds)
	}
	return r
}

// End counts a request that has taken so long and ended with err.
func (r *Requests) End(call Call, took time.Duration, err error) {
	r.ended[call][OutcomeOf(err)].Add(1)
	r.took[call].Observe(took)
}

// Each calls f with each count that is not 0.
func (r *Requests) Each(f func(call Call, outcome Outcome, n int64)) {
	for c := range calls {
		for o := range outcomes {
			if n := r.ended[c][o].Load(); n > 0 {
				f(c, o, n)
			}
		}
	}
}

// Durations calls f with how long the calls took, for each call that was made.
func (r *Requests) Durations(f func(call Call, took Distribution)) {
	for c := range calls {
		if d := r.took[c].Load(); d.Count > 0 {
			f(c, d)
		}
	}
}
