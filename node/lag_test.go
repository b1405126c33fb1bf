package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/metadata"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// The situations are text: `sample at=1s end=100` adds one, `lag position=90 now=3s` measures.
func TestMeasureLagSituations(t *testing.T) {
	datadriven.RunTest(t, "testdata/lag.txt", func(t *testing.T, d *datadriven.TestData) string {
		var samples []sample
		for line := range strings.Lines(d.Input) {
			var at, end, input int64
			if n, err := fmt.Sscanf(strings.TrimSpace(line), "at=%d end=%d input=%d", &at, &end, &input); err != nil && n < 2 {
				d.Fatalf(t, "%q: %v", line, err)
			}
			s := sample{At: t0.Add(time.Duration(at) * time.Millisecond), End: end}
			if input > 0 {
				s.Input = metadata.Position{{Topic: "in"}: input}
			}
			samples = addSample(samples, s)
		}
		var position, now int64
		d.ScanArgs(t, "position", &position)
		d.ScanArgs(t, "now", &now)
		lag := MeasureLag(samples, position, t0.Add(time.Duration(now)*time.Millisecond))
		out := fmt.Sprintf("offsets %s, time %s, sample age %s, end %s", unknown(lag.Offsets), unknownTime(lag.Time), lag.SampleAge, unknown(lag.End))
		if p := inputAt(samples, position); p != nil {
			out += fmt.Sprintf(", input %d", p[metadata.TopicPartition{Topic: "in"}])
		}
		return out + "\n"
	})
}

func unknown(n int64) string {
	if n == metadata.LagUnknown {
		return "unknown"
	}
	return strconv.FormatInt(n, 10)
}

func unknownTime(d time.Duration) string {
	if d == metadata.LagUnknown {
		return "unknown"
	}
	return d.String()
}

// The slow twin keeps every sample ever taken. Against it the bounded list never claims less lag (I5), and in the newer
// half of its list exactly as much.
func TestBoundedSamplesNeverClaimLessLag(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var all, kept []sample
		at, end := t0, int64(0)
		for range 1 + rng.IntN(400) {
			at = at.Add(time.Duration(rng.IntN(300)) * time.Millisecond)
			if rng.IntN(3) > 0 {
				end += int64(rng.IntN(50))
			}
			s := sample{At: at, End: end}
			all = append(all, s)
			kept = addSample(kept, s)
			if len(kept) > maxSamples {
				t.Fatalf("%d samples are kept", len(kept))
			}
		}
		now := at.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
		position := rng.Int64N(end + 2)
		got, want := MeasureLag(kept, position, now), slowLag(all, position, now)
		if got.Offsets != want.Offsets {
			t.Fatalf("offset lag %d, want %d", got.Offsets, want.Offsets)
		}
		if got.Time != metadata.LagUnknown && want.Time != metadata.LagUnknown && got.Time < want.Time {
			t.Fatalf("time lag %s is less than the true %s", got.Time, want.Time)
		}
		if got.Time != metadata.LagUnknown && want.Time == metadata.LagUnknown {
			t.Fatalf("time lag %s, but no sample was ever reached", got.Time)
		}
		if i := len(kept) / 2; i < len(kept) && position >= kept[i].End && len(kept) > 2 && got.Time != want.Time {
			t.Fatalf("time lag %s, want %s: the newer half was thinned out", got.Time, want.Time)
		}
	}
}

func slowLag(all []sample, position int64, now time.Time) metadata.LagInfo {
	lag := metadata.LagInfo{Offsets: metadata.LagUnknown, Time: metadata.LagUnknown}
	for _, s := range all {
		lag.Offsets = max(0, s.End-position)
		if s.End <= position {
			lag.Time = now.Sub(s.At)
		}
	}
	return lag
}

// A published list of samples is never written again.
func TestAddSampleLeavesTheOldListAlone(t *testing.T) {
	var samples []sample
	for i := range 200 {
		before := slices.Clone(samples)
		old := samples
		samples = addSample(samples, sample{At: t0.Add(time.Duration(i) * time.Second), End: int64(i / 2)})
		if !slices.EqualFunc(before, old, func(a, b sample) bool { return a.At.Equal(b.At) && a.End == b.End }) {
			t.Fatalf("sample %d changed the list that others read", i)
		}
	}
}
