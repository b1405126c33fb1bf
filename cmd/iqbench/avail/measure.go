package avail

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Moments are counted from the start of the run.

// longestGap is the longest time in a window without an answer: between its begin and the first moment in good, between
// two that follow one another, and between the last and the window's end. An answer that came after the end, to a read
// that began before it, counts as it came. Of equal gaps the first is given. The order of good does not matter; it is
// sorted in place.
func longestGap(begin, end time.Duration, good []time.Duration) gap {
	slices.Sort(good)
	last, longest := begin, gap{from: begin}
	until := func(at time.Duration) {
		if at-last > longest.length {
			longest = gap{from: last, length: at - last}
		}
		last = max(last, at)
	}
	for _, at := range good {
		until(at)
	}
	until(end)
	return longest
}

// A gap is a time without an answer.
type gap struct {
	partition    int
	from, length time.Duration
}

// A step says that from a moment on an offset is known to have been reached. Lists of steps are sorted by both.
type step struct {
	at time.Duration
	to int64
}

// addStep adds a step if it goes further than the last.
func addStep(steps []step, s step) []step {
	if n := len(steps); n > 0 {
		if s.to <= steps[n-1].to {
			return steps
		}
		s.at = max(s.at, steps[n-1].at) // two that were measured at one moment may come in either order
	}
	return append(steps, s)
}

// since drops the steps that no longer matter from a moment on: all but the last one before it.
func since(steps []step, from time.Duration) []step {
	n := sort.Search(len(steps), func(i int) bool { return steps[i].at > from })
	return slices.Clone(steps[max(0, n-1):])
}

// longestStall is the longest time in a window during which processing stood still although there was input: arrived is
// how far the input reached (the offset after the last record acknowledged), processed how far it was known to be
// processed. A stall begins with the last progress, or when input beyond it arrived, whichever was later, and ends with
// the next progress or the window.
func longestStall(begin, end time.Duration, arrived, processed []step) time.Duration {
	longest, done, from := time.Duration(0), int64(0), begin
	until := func(at time.Duration) {
		i := sort.Search(len(arrived), func(i int) bool { return arrived[i].to > done })
		if i < len(arrived) {
			longest = max(longest, min(at, end)-max(begin, from, arrived[i].at))
		}
	}
	for _, p := range processed {
		until(p.at)
		done, from = p.to, p.at
	}
	until(end)
	return longest
}

// A spread is how a figure came out over the rounds.
type spread struct {
	Min    int64 `json:"min"`
	Median int64 `json:"median"`
	Max    int64 `json:"max"`
}

// spreadOf rounds to milliseconds. The median of an even number of figures is the mean of the two in the middle.
func spreadOf(figures []time.Duration) spread {
	if len(figures) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	ms := func(d time.Duration) int64 { return d.Round(time.Millisecond).Milliseconds() }
	return spread{Min: ms(sorted[0]), Median: ms((sorted[(n-1)/2] + sorted[n/2]) / 2), Max: ms(sorted[n-1])}
}

// A sighting is a reply that showed a count of a key: that count was committed, at the latest at that moment.
type sighting struct {
	at    time.Duration
	count int64
}

// sightings are those of one key that showed more than any before. They are sorted by moment and count.
type sightings []sighting

// add takes a reply in.
func (s *sightings) add(at time.Duration, count int64) {
	if n := len(*s); n > 0 {
		last := (*s)[n-1]
		if count <= last.count {
			return
		}
		at = max(at, last.at) // later than true, which claims less
	}
	*s = append(*s, sighting{at, count})
}

// known is the count that was known to be committed before a moment.
func (s sightings) known(before time.Duration) int64 {
	n := sort.Search(len(s), func(i int) bool { return s[i].at >= before })
	if n == 0 {
		return 0
	}
	return s[n-1].count
}

// staleness is how long before a moment it was known at the latest that a count is no longer the newest; 0 if it was not.
// The true staleness is at least that.
func (s sightings) staleness(count int64, at time.Duration) time.Duration {
	i, _ := slices.BinarySearchFunc(s, count+1, func(e sighting, want int64) int { return cmp.Compare(e.count, want) })
	if i == len(s) {
		return 0
	}
	return max(0, at-s[i].at)
}
