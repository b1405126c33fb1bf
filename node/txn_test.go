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
		took    time.Duration
		keepsUp bool
		want    time.Duration // after now
	}{
		{"a backlog is worked off in large transactions", 30 * time.Millisecond, 30 * time.Millisecond, false, interval},
		{"the commit before took 30ms and the tasks keep up", 30 * time.Millisecond, 30 * time.Millisecond, true, 70 * time.Millisecond},
		{"commits are slow: they take half of the time", 80 * time.Millisecond, 80 * time.Millisecond, true, 80 * time.Millisecond},
		{"commits are slower than the interval", 3 * time.Second, 3 * time.Second, true, interval},
		{"nothing was committed for long", time.Second, 5 * time.Millisecond, true, interval / 2},
		{"nothing was ever committed", interval, 0, true, interval / 2},
		{"a clock that stands still", 0, 0, true, interval},
	} {
		if got := commitAt(now, now.Add(-c.last), c.took, c.keepsUp, interval).Sub(now); got != c.want {
			t.Errorf("%s: in %s, want in %s", c.name, got, c.want)
		}
	}
}
