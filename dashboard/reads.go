package dashboard

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// ratesWindow is the time over which rates are taken, ratesEvery the time between two points of their course.
	ratesWindow = 5 * time.Second
	ratesEvery  = time.Second
	// maxCourse bounds the course.
	maxCourse = 60
	// maxListed bounds the reads that a page lists.
	maxListed = 100
)

// Counts are the reads of partitions that a router has answered or refused since it began, by their ends. A lookup of one key is
// one, and a read of many keys one for each partition.
type Counts struct {
	// Active were answered by the active, Copies by another replica, Nowhere by none: such a key is in no partition.
	Active, Copies, Nowhere int64
	// Stale, of these, were answered by a replica that was behind its changelog's end as it knew it, or did not know.
	Stale int64
	// FailedOver, of these, were answered by another replica than the first that was asked.
	FailedOver int64
	// Failed ended otherwise than by a refusal: the caller's time was over, or it has gone.
	Failed int64
	// Refused are refusals by reason, in the words of the wire.
	Refused map[string]int64
}

func (c *Counts) answered() int64 { return c.Active + c.Copies + c.Nowhere }

func (c *Counts) refused() (n int64) {
	for _, count := range c.Refused {
		n += count
	}
	return n
}

// Reads is what reads meet.
type Reads struct {
	// Known is false where nothing counts reads.
	Known bool `json:"known"`
	// Rates are per second, over the last few seconds; nil while not known.
	Rates *Rates `json:"rates"`
	// Course are the rates of the last minute, second by second, the oldest first, as far as somebody looked.
	Course []Point `json:"course"`
	// Total are all reads since the router began, and Refusals those of them that were refused.
	Total    int64 `json:"total"`
	Refusals int64 `json:"refusals"`
}

// Rates are reads per second.
type Rates struct {
	Active     float64 `json:"active"`
	Copies     float64 `json:"copies"`
	Nowhere    float64 `json:"nowhere"`
	Stale      float64 `json:"stale"`
	FailedOver float64 `json:"failed_over"`
	Failed     float64 `json:"failed"`
	// Refused are by reason.
	Refused map[string]float64 `json:"refused"`
	// CopiesShare and StaleShare are which part of the answers came from copies, and were stale, from 0 to 1.
	CopiesShare float64 `json:"copies_share"`
	StaleShare  float64 `json:"stale_share"`
}

// Point is one second of the course.
type Point struct {
	Active  float64 `json:"active"`
	Copies  float64 `json:"copies"`
	Refused float64 `json:"refused"` // failed ones too
}

func (r *Reads) equal(o *Reads) bool {
	switch {
	case r.Known != o.Known || r.Total != o.Total || r.Refusals != o.Refusals || (r.Rates == nil) != (o.Rates == nil) || !slices.Equal(r.Course, o.Course):
		return false
	case r.Rates == nil:
		return true
	}
	a, b := *r.Rates, *o.Rates
	same := maps.Equal(a.Refused, b.Refused)
	a.Refused, b.Refused = nil, nil
	return same && a.Active == b.Active && a.Copies == b.Copies && a.Nowhere == b.Nowhere && a.Stale == b.Stale && a.FailedOver == b.FailedOver &&
		a.Failed == b.Failed && a.CopiesShare == b.CopiesShare && a.StaleShare == b.StaleShare
}

// counted are the counts at a moment.
type counted struct {
	at time.Time
	Counts
}

// course keeps counts for rates. The zero value has none.
type readCourse struct {
	samples []counted // of the newest ratesWindow, the oldest first
	points  []Point
	shown   Reads
}

// observe takes the counts at now and says what reads meet. The figures change once each ratesEvery. After a pause, in which
// nobody looked, they begin anew.
func (c *readCourse) observe(counts Counts, now time.Time) Reads {
	if n := len(c.samples); n > 0 {
		switch since := now.Sub(c.samples[n-1].at); {
		case since < ratesEvery:
			return c.shown
		case since > ratesWindow:
			c.samples, c.points = nil, nil
		}
	}
	c.samples = append(c.samples, counted{now, counts})
	for len(c.samples) > 2 && now.Sub(c.samples[1].at) >= ratesWindow {
		c.samples = c.samples[1:]
	}
	c.shown = Reads{Known: true, Total: counts.answered() + counts.Failed + counts.refused(), Refusals: counts.refused(), Course: []Point{}}
	if n := len(c.samples); n > 1 {
		last := ratesOf(&c.samples[n-2], &c.samples[n-1])
		point := Point{Active: last.Active, Copies: last.Copies, Refused: last.Failed}
		for _, rate := range last.Refused {
			point.Refused += rate
		}
		c.points = append(slices.Clip(c.points[max(0, len(c.points)-maxCourse+1):]), point) // a copy: pages hold the others
		c.shown.Course = c.points
		c.shown.Rates = ratesOf(&c.samples[0], &c.samples[n-1])
	}
	return c.shown
}

func ratesOf(from, to *counted) *Rates {
	took := to.at.Sub(from.at).Seconds()
	rate := func(a, b int64) float64 { return roundRate(float64(max(0, b-a)) / took) }
	r := &Rates{
		Active: rate(from.Active, to.Active), Copies: rate(from.Copies, to.Copies), Nowhere: rate(from.Nowhere, to.Nowhere),
		Stale: rate(from.Stale, to.Stale), FailedOver: rate(from.FailedOver, to.FailedOver), Failed: rate(from.Failed, to.Failed), Refused: map[string]float64{},
	}
	for reason, n := range to.Refused {
		if perSecond := rate(from.Refused[reason], n); perSecond > 0 {
			r.Refused[reason] = perSecond
		}
	}
	if answers := to.answered() - from.answered(); answers > 0 {
		const digits = 1e4
		share := func(part int64) float64 { return math.Round(float64(part)/float64(answers)*digits) / digits }
		r.CopiesShare, r.StaleShare = share(to.Copies-from.Copies), share(to.Stale-from.Stale)
	}
	return r
}

// roundRate leaves three digits.
func roundRate(r float64) float64 {
	if r == 0 {
		return 0
	}
	const digits = 3
	scale := math.Pow(10, digits-1-math.Floor(math.Log10(r)))
	return math.Round(r*scale) / scale
}

// Read is a lookup that was kept to be shown: one that was refused, failed or failed over, or a sample of the others. Its key is
// not kept.
type Read struct {
	// Sequence grows with each read that is kept.
	Sequence int64 `json:"sequence"`
	// AtMs is when it ended, in milliseconds since 1970.
	AtMs  int64  `json:"at_ms"`
	Store string `json:"store"`
	// Partition is -1 when none was found out.
	Partition int32  `json:"partition"`
	Policy    string `json:"policy"`
	// Node answered, in Role; both are empty when nobody did.
	Node string `json:"node,omitempty"`
	Role string `json:"role,omitempty"`
	// Found says that the key was there.
	Found bool `json:"found,omitempty"`
	// Reason is why it was refused, in the words of the wire, or how it failed otherwise; Message says it in words. Both are empty
	// when it was answered.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Offsets and LagMs are how far behind the answer was; -1 when not known.
	Offsets int64   `json:"offsets"`
	LagMs   float64 `json:"lag_ms"`
	// TookMs is its time in the router, its wait too.
	TookMs float64 `json:"took_ms"`
	// Attempts are the replicas that failed before, in order.
	Attempts []Attempt `json:"attempts,omitempty"`
	// Sampled says that it stands for others like it.
	Sampled bool `json:"sampled,omitempty"`
}

// Attempt is what a replica said that was asked and did not answer.
type Attempt struct {
	Node    string  `json:"node"`
	Reason  string  `json:"reason,omitempty"`
	Message string  `json:"message"`
	TookMs  float64 `json:"took_ms"`
}
