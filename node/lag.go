package node

import (
	"slices"
	"time"

	"github.com/iqgate/iqgate/fault"
	"github.com/iqgate/iqgate/metadata"
)

// maxSamples bounds the samples kept of one changelog partition. With one sample each 100 ms it spans minutes, because
// samples that tell nothing new are merged and the older half is thinned out when it is full.
const maxSamples = 64

// A sample is what one request for a changelog's end told: at the moment At, when the request was SENT by this node's
// monotonic clock, nothing beyond End was in the log. Input are the group's committed input offsets, read BEFORE End,
// so that a replica which has applied everything below End has the effect of every input record below Input.
type sample struct {
	At    time.Time
	End   int64
	Input metadata.Position // nil when not asked for
}

// addSample returns samples with s at its end; samples is not written. Of two samples with one end the later tells
// more, whatever the position. When the list is full every second sample of its older half is dropped, never the
// oldest: lag may then look larger than it is, never smaller (I5).
func addSample(samples []sample, s sample) []sample {
	if n := len(samples); n > 0 && s.At.Before(samples[n-1].At) {
		return samples // overtaken by a later request
	}
	if n := len(samples); n > 0 && s.End < samples[n-1].End {
		// The end went back: the topic was truncated or made anew. What the old samples say of it is void.
		return []sample{s}
	}
	next := make([]sample, 0, maxSamples)
	next = append(next, samples...)
	if n := len(next); n > 0 && next[n-1].End == s.End {
		if s.Input == nil {
			s.Input = next[n-1].Input // read before the same end, so it is in what reaches it
		}
		next[n-1] = s
		return next
	}
	if len(next) == maxSamples {
		kept := next[:0]
		for i, old := range samples {
			if i < maxSamples/2 && i%2 == 1 {
				continue
			}
			kept = append(kept, old)
		}
		next = kept
	}
	return append(next, s)
}

// MeasureLag says how far a replica at position is behind, by samples in the order in which they were taken.
//
// Offset lag is the distance to the newest end. Time lag is the time since the newest sample whose end the position has
// reached: a replica that has applied everything below E(t) has everything that was in the log at t, hence everything
// committed at t. No clock of another machine and no record timestamp enters, and a node that is cut off from Kafka
// sees its time lag grow by itself.
func MeasureLag(samples []sample, position int64, now time.Time) metadata.LagInfo {
	lag := metadata.LagInfo{Position: position, End: metadata.LagUnknown, Offsets: metadata.LagUnknown, Time: metadata.LagUnknown}
	if len(samples) == 0 {
		return lag
	}
	newest := samples[len(samples)-1]
	lag.End = newest.End
	lag.Offsets = max(0, newest.End-position)
	if fault.LagOffByOne {
		lag.Offsets = max(0, lag.Offsets-1)
	}
	lag.SampleAge = max(0, now.Sub(newest.At))
	for _, s := range slices.Backward(samples) {
		if s.End <= position {
			lag.Time = max(0, now.Sub(s.At))
			break
		}
	}
	return lag
}

// inputAt is the input position of a standby at position: that of the newest sample whose end it has reached, nil when
// there is none.
func inputAt(samples []sample, position int64) metadata.Position {
	for _, s := range slices.Backward(samples) {
		if s.End <= position && s.Input != nil {
			return s.Input
		}
	}
	return nil
}
