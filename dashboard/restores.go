package dashboard

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

const (
	// restoreWindow is the time over which the speed of a restore is taken.
	restoreWindow = 10 * time.Second
	// restoreSettle is the least time of it: a speed of less is luck.
	restoreSettle = time.Second
	// maxRestoreSamples bounds what is kept of one restore.
	maxRestoreSamples = 64
	// maxRestores bounds the restores that are listed, those that end last first.
	maxRestores = 200
)

// Restore is how far a replica is that restores.
type Restore struct {
	Store     string `json:"store"`
	Partition int32  `json:"partition"`
	Node      string `json:"node"`
	Role      string `json:"role"`
	// Left are the offsets still to apply, rounded up.
	Left int64 `json:"left"`
	// Percent is how much of what it had to apply when it was first seen it has applied.
	Percent int `json:"percent"`
	// PerSecond is how many offsets it applies, -1 while not known.
	PerSecond int64 `json:"per_second"`
	// EtaMs is when it will have caught up, at this speed and that of the changelog's growth; -1 while not known, or when the
	// changelog grows faster.
	EtaMs int64 `json:"eta_ms"`
}

// restoring names a restore. Another incarnation begins another one.
type restoring struct {
	metadata.Partition
	node        metadata.NodeID
	incarnation metadata.Incarnation
}

// sample is where a replica and its changelog's end were at a moment.
type sample struct {
	at            time.Time
	position, end int64
}

// restores keeps where each restoring replica was. The zero value has seen none.
type restores struct {
	seen map[restoring]*course
}

// course is one restore as it went.
type course struct {
	first   sample
	samples []sample // of the newest restoreWindow, the oldest first
}

// observe takes what the view tells at now, and says how all restores go, the one that is over last first. now must not go
// back.
func (r *restores) observe(v *metadata.View, now time.Time) []Restore {
	list, seen := []Restore{}, map[restoring]*course{}
	for _, info := range v.Stores() {
		for number := range info.Partitions {
			pv, err := v.Partition(metadata.Partition{Store: info.Name, Partition: number})
			if err != nil {
				continue
			}
			for i := range pv.Len() {
				h := pv.At(i)
				if !h.Node.Alive || h.State != metadata.StateRestoring || pv.End() == unknown {
					continue
				}
				id := restoring{h.Partition, h.Node.ID, h.Node.Incarnation}
				c := r.seen[id]
				s := sample{at: now, position: h.Lag.Position, end: pv.End()}
				if c == nil || s.position < c.samples[len(c.samples)-1].position { // begun anew
					c = &course{first: s}
				}
				c.add(s)
				seen[id] = c
				list = append(list, c.restore(&h))
			}
		}
	}
	r.seen = seen
	slices.SortStableFunc(list, compareRestores)
	return list[:min(len(list), maxRestores)]
}

// add keeps a sample and lets go of those that are older than the window. When there are too many, every second one goes.
func (c *course) add(s sample) {
	c.samples = append(c.samples, s)
	for len(c.samples) > 2 && s.at.Sub(c.samples[1].at) >= restoreWindow {
		c.samples = c.samples[1:]
	}
	if len(c.samples) <= maxRestoreSamples {
		return
	}
	kept := make([]sample, 0, maxRestoreSamples)
	for i, old := range c.samples {
		if i%2 == 0 || i == len(c.samples)-1 {
			kept = append(kept, old)
		}
	}
	c.samples = kept
}

func (c *course) restore(h *metadata.Hosted) Restore {
	from, now := c.samples[0], c.samples[len(c.samples)-1]
	left := max(0, now.end-now.position)
	r := Restore{
		Store: h.Store, Partition: h.Partition.Partition, Node: string(h.Node.ID), Role: h.Role.String(),
		Left: roundOffsets(left), Percent: percent(now.position-c.first.position, now.end-c.first.position), PerSecond: unknown, EtaMs: unknown,
	}
	took := now.at.Sub(from.at)
	if took < restoreSettle {
		return r
	}
	r.PerSecond = roundOffsets(int64(float64(now.position-from.position) / took.Seconds()))
	if gain := float64(now.position-from.position-(now.end-from.end)) / took.Seconds(); gain > 0 {
		if eta := float64(left) / gain * float64(time.Second); eta < math.MaxInt64/2 {
			r.EtaMs = roundTime(time.Duration(eta))
		}
	}
	return r
}

// percent is part of whole, rounded down: 100 is all of it.
func percent(part, whole int64) int {
	const all = 100
	if whole <= 0 || part >= whole {
		return all
	}
	return int(float64(max(0, part)) / float64(whole) * all)
}

func compareRestores(a, b Restore) int {
	end := func(r *Restore) int64 {
		if r.EtaMs == unknown {
			return math.MaxInt64
		}
		return r.EtaMs
	}
	return cmp.Or(cmp.Compare(end(&b), end(&a)), strings.Compare(a.Store, b.Store), cmp.Compare(a.Partition, b.Partition), strings.Compare(a.Node, b.Node))
}
