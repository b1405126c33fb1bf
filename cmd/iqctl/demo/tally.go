package demo

import (
	"maps"
	"time"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A tally counts the reads of one policy. Times are counted from the start of the run. The zero value has counted nothing
// since 0.
type tally struct {
	served, failed          int
	active, standby, warmup int
	reasons                 map[string]failed // of failures
	longestGap              time.Duration     // between two successes, or the start and the first
	last                    time.Duration     // when the last success came
	stalest                 time.Duration     // largest staleness that a reply has told
	broken                  int               // replies that told of more than the policy's bound
}

// failed is how many reads failed for a reason, and what the first of them said.
type failed struct {
	count int
	first string
}

// success counts a read that was answered at now by a replica of that role.
func (t *tally) success(now time.Duration, role iqv1.Role, stale time.Duration, within bool) {
	t.served++
	switch role {
	case iqv1.Role_ROLE_ACTIVE:
		t.active++
	case iqv1.Role_ROLE_STANDBY:
		t.standby++
	case iqv1.Role_ROLE_WARMUP:
		t.warmup++
	case iqv1.Role_ROLE_UNSPECIFIED:
	}
	t.longestGap = max(t.longestGap, now-t.last)
	t.last = max(t.last, now)
	t.stalest = max(t.stalest, stale)
	if !within {
		t.broken++
	}
}

// failure counts a read that failed, for a reason.
func (t *tally) failure(reason, text string) {
	t.failed++
	if t.reasons == nil {
		t.reasons = make(map[string]failed)
	}
	f := t.reasons[reason]
	if f.count++; f.count == 1 {
		f.first = text
	}
	t.reasons[reason] = f
}

// at gives the tally as it stands at now: the time since the last success is a gap too.
func (t *tally) at(now time.Duration) tally {
	c := *t
	c.reasons = maps.Clone(t.reasons)
	c.longestGap = max(c.longestGap, now-c.last)
	return c
}
