package tally

import (
	"sync/atomic"
	"time"
)

// A Histogram counts durations by size. Any goroutine may use it.
type Histogram struct {
	bounds []time.Duration // upper bounds of the buckets, growing; what is larger than all has a bucket of its own
	counts []atomic.Int64
	sum    atomic.Int64 // nanoseconds
}

// Bounds of the buckets.
var (
	requestBounds = []time.Duration{
		50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 10 * time.Second,
	}
	stalenessBounds = []time.Duration{
		0, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, time.Hour,
	}
	workBounds = []time.Duration{
		5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
		250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
		30 * time.Second, time.Minute, 5 * time.Minute,
	}
)

func newHistogram(bounds []time.Duration) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Int64, len(bounds)+1)}
}

// Observe counts d; what is negative counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(h.bounds) && d > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// A Distribution is a Histogram at one moment.
type Distribution struct {
	Count int64
	Sum   time.Duration
	// Bounds are the upper bounds of the buckets, and Below how many were at most as large, for each.
	Bounds []time.Duration
	Below  []int64
}

// Load is the histogram as it is now. What is counted meanwhile may be in it in part.
func (h *Histogram) Load() Distribution {
	d := Distribution{Sum: time.Duration(h.sum.Load()), Bounds: h.bounds, Below: make([]int64, len(h.bounds))}
	for i := range h.counts {
		d.Count += h.counts[i].Load()
		if i < len(d.Below) {
			d.Below[i] = d.Count
		}
	}
	return d
}
