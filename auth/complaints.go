package auth

import (
	"sync"
	"time"
)

// complaintEvery is the shortest time between two refusals in the log: whoever is refused may call as often as it likes.
const complaintEvery = time.Second

// complaints keeps a log from being flooded.
type complaints struct {
	mu struct {
		sync.Mutex
		last   time.Time
		others int // since last, that were not logged
	}
}

// may says whether something may be logged at now, and how much was not since the last time.
func (c *complaints) may(now time.Time) (others int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.last.IsZero() && now.Sub(c.mu.last) < complaintEvery {
		c.mu.others++
		return 0, false
	}
	others = c.mu.others
	c.mu.last, c.mu.others = now, 0
	return others, true
}
