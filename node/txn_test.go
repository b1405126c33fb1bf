package node

import (
	"testing"
	"time"
)

func TestCommitAt(t *testing.T) {
	t.Parallel()
	const interval = 100 * time.Millisecond
	now := time.Now()
	for _, c := range []struct {
		name    string
		last    time.Duration // before now
		keepsUp bool
		want    time.Duration // after now
	}{
		{"a backlog is worked off in large transactions", 30 * time.Millisecond, false, interval},
		{"the commit before took 30ms and the tasks keep up", 30 * time.Millisecond, true, 70 * time.Millisecond},
		{"nothing was committed for long: at once", time.Second, true, interval - time.Second},
		{"a clock that stands still", 0, true, interval},
	} {
		if got := commitAt(now, now.Add(-c.last), c.keepsUp, interval).Sub(now); got != c.want {
			t.Errorf("%s: in %s, want in %s", c.name, got, c.want)
		}
	}
}
