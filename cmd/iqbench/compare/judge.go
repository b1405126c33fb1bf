package compare

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A judge says what is wanted of a row.
type judge int

const (
	// ratioAtLeast wants ours to be at least want times theirs.
	ratioAtLeast judge = iota
	// ratioAtMost wants ours to be at most want times theirs.
	ratioAtMost
	// oursAtMost wants ours to be at most want; theirs is told for comparison, where there is any.
	oursAtMost
	// oursAtLeast wants ours to be at least want.
	oursAtLeast
	// nothing is wanted of a reference.
	nothing
)

func (j judge) String() string {
	switch j {
	case ratioAtLeast:
		return "ratio at least"
	case ratioAtMost:
		return "ratio at most"
	case oursAtMost:
		return "ours at most"
	case oursAtLeast:
		return "ours at least"
	case nothing:
		return "for reference"
	}
	return fmt.Sprintf("judge(%d)", int(j))
}

// A spread sums up what the rounds gave.
type spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// spreadOf needs at least one value. The median of an even number is the mean of the middle two.
func spreadOf(values []float64) spread {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return spread{Min: s[0], Median: (s[(n-1)/2] + s[n/2]) / 2, Max: s[n-1]}
}

// quantile is the smallest of sorted durations that at least the share q of them does not exceed; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// figures is what was measured: by figure, a value a round; and why figures are missing.
type figures struct {
	values  map[string][]float64
	missing map[string]string
}

func newFigures() *figures {
	return &figures{values: map[string][]float64{}, missing: map[string]string{}}
}

// why says why a figure has no value.
func (f *figures) why(figure string) string {
	if text := f.missing[figure]; text != "" {
		return text
	}
	return "not measured"
}

// A result is a row of the table as it came out.
type result struct {
	Measure string `json:"measure"`
	ID      string `json:"id"`
	Unit    string `json:"unit"`
	// Ours, Theirs and Ratio are medians and their quotient; 0 when there is none.
	Ours   float64 `json:"ours"`
	Theirs float64 `json:"theirs"`
	Ratio  float64 `json:"ratio"`
	Want   float64 `json:"want"`
	Judge  string  `json:"judge"`
	OK     bool    `json:"ok"`
	// Missing says why a side has no figure.
	Missing      string  `json:"missing,omitempty"`
	OursSpread   *spread `json:"ours_spread,omitempty"`
	TheirsSpread *spread `json:"theirs_spread,omitempty"`

	judge judge
}

// judged is a row's result.
func judged(r row, f *figures) result {
	out := result{Measure: r.text, ID: r.id, Unit: r.unit, Want: r.want, Judge: r.judge.String(), judge: r.judge}
	side := func(figure string) *spread {
		if v := f.values[figure]; len(v) > 0 {
			s := spreadOf(v)
			return &s
		}
		return nil
	}
	if out.OursSpread = side(r.ours); out.OursSpread != nil {
		out.Ours = out.OursSpread.Median
	} else {
		out.Missing = "missing: " + f.why(r.ours)
	}
	if r.theirs != "" {
		if out.TheirsSpread = side(r.theirs); out.TheirsSpread != nil {
			out.Theirs = out.TheirsSpread.Median
		} else if out.Missing == "" && r.judge != oursAtMost {
			out.Missing = "missing: " + f.why(r.theirs)
		}
	}
	if out.OursSpread != nil && out.TheirsSpread != nil && out.Theirs != 0 {
		out.Ratio = out.Ours / out.Theirs
	}
	switch {
	case out.Missing != "":
	case r.judge == ratioAtLeast:
		out.OK = out.Ratio >= r.want
	case r.judge == ratioAtMost:
		out.OK = out.Theirs != 0 && out.Ratio <= r.want
	case r.judge == oursAtMost:
		out.OK = out.Ours <= r.want
	case r.judge == oursAtLeast:
		out.OK = out.Ours >= r.want
	case r.judge == nothing:
		out.OK = true
	}
	return out
}
