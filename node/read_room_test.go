package node

import (
	"testing"
	"time"
)

// The tasks leave a processor free while there are reads, and for a while after.
func TestTasksLeaveRoomForReads(t *testing.T) {
	t.Parallel()
	var p readRoom
	start := time.Now()
	for _, c := range []struct {
		after      time.Duration
		processors int
		reads      uint64
		want       int
	}{
		{0, 8, 0, 8},
		{time.Millisecond, 8, 1, 7},
		{2 * time.Millisecond, 8, 1, 7},
		{time.Millisecond + readsLinger, 8, 1, 8},
		{time.Second, 1, 2, 1}, // there is none to leave
		{time.Second, 2, 2, 1},
		{time.Second + readsLinger - 1, 2, 9, 1},
		{time.Second + 2*readsLinger - 2, 2, 9, 1},
		{time.Second + 2*readsLinger - 1, 2, 9, 2},
		{2 * time.Second, 2, 3, 1}, // a replica with its count has gone, others were read
	} {
		if got := p.width(c.processors, c.reads, start.Add(c.after)); got != c.want {
			t.Errorf("after %s, %d reads, %d processors: %d at a time, want %d", c.after, c.reads, c.processors, got, c.want)
		}
	}
}
