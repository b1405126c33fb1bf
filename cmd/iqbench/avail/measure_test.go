package avail

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

const msec = time.Millisecond

// moments reads "10 20 30" as milliseconds.
func moments(t *testing.T, text string) (all []time.Duration) {
	t.Helper()
	for f := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("moment %q: %v", f, err)
		}
		all = append(all, time.Duration(n)*msec)
	}
	return all
}

// steps reads "10:3 20:7" as offsets 3 from 10 ms and 7 from 20 ms on.
func steps(t *testing.T, text string) (all []step) {
	t.Helper()
	for f := range strings.FieldsSeq(text) {
		at, to, ok := strings.Cut(f, ":")
		a, err1 := strconv.Atoi(at)
		b, err2 := strconv.Atoi(to)
		if !ok || err1 != nil || err2 != nil {
			t.Fatalf("step %q is not moment:offset", f)
		}
		all = addStep(all, step{time.Duration(a) * msec, int64(b)})
	}
	return all
}

func TestMeasure(t *testing.T) {
	datadriven.Walk(t, "testdata/measure", func(t *testing.T, path string) { //nolint:thelper // it is the test itself
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var begin, end int
			d.MaybeScanArgs(t, "begin", &begin)
			d.MaybeScanArgs(t, "end", &end)
			from, to := time.Duration(begin)*msec, time.Duration(end)*msec
			lines := map[string]string{}
			for line := range strings.Lines(d.Input) {
				name, rest, _ := strings.Cut(line, " ")
				lines[strings.TrimSpace(name)] = rest
			}
			switch d.Cmd {
			case "gap":
				g := longestGap(from, to, moments(t, d.Input))
				return fmt.Sprintf("%s from %s on\n", g.length, g.from)
			case "stall":
				return longestStall(from, to, steps(t, lines["arrived"]), steps(t, lines["processed"])).String() + "\n"
			case "spread":
				return fmt.Sprintf("%+v\n", spreadOf(moments(t, d.Input)))
			case "sightings":
				var s sightings
				for p := range strings.FieldsSeq(lines["seen"]) {
					at, n, _ := strings.Cut(p, ":")
					a, _ := strconv.Atoi(at)
					c, _ := strconv.Atoi(n)
					s.add(time.Duration(a)*msec, int64(c))
				}
				at, _, _ := strings.Cut(strings.TrimSpace(lines["read"]), " ")
				a, n, _ := strings.Cut(at, ":")
				moment, _ := strconv.Atoi(a)
				count, _ := strconv.Atoi(n)
				begun := time.Duration(moment) * msec
				return fmt.Sprintf("known before: %d, stale for at least %s\n", s.known(begun), s.staleness(int64(count), begun))
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// The slow obvious way: walk through the window a millisecond at a time.
func TestLongestStallMatchesAWalkThroughTheWindow(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		walk := func(chance int) (all []step) {
			at, to := 0, int64(0)
			for range r.IntN(20) {
				at += 1 + r.IntN(chance)
				to += int64(1 + r.IntN(5))
				all = append(all, step{time.Duration(at) * msec, to})
			}
			return all
		}
		arrived, processed := walk(15), walk(40)
		begin := r.IntN(50)
		end := begin + 1 + r.IntN(200)
		reached := func(steps []step, at int) (to int64) {
			for _, s := range steps {
				if s.at <= time.Duration(at)*msec {
					to = s.to
				}
			}
			return to
		}
		want, stood := 0, 0
		for at := begin + 1; at <= end; at++ {
			if reached(arrived, at-1) > reached(processed, at-1) {
				stood++
				want = max(want, stood)
			}
			if reached(processed, at) != reached(processed, at-1) || reached(arrived, at) <= reached(processed, at) {
				stood = 0
			}
		}
		if got := longestStall(time.Duration(begin)*msec, time.Duration(end)*msec, arrived, processed); got != time.Duration(want)*msec {
			t.Fatalf("seed %d: stall %s from %d to %d, want %dms; arrived %v, processed %v", seed, got, begin, end, want, arrived, processed)
		}
	}
}

// What is dropped before a window does not change what is measured in it.
func TestStepsBeforeAWindowAreDroppedWithoutEffect(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var arrived, processed []step
		for range 30 {
			arrived = addStep(arrived, step{time.Duration(r.IntN(300)) * msec, int64(r.IntN(60))})
			processed = addStep(processed, step{time.Duration(r.IntN(300)) * msec, int64(r.IntN(60))})
		}
		begin := time.Duration(r.IntN(200)) * msec
		end := begin + 100*msec
		want := longestStall(begin, end, arrived, processed)
		if got := longestStall(begin, end, since(arrived, begin), since(processed, begin)); got != want {
			t.Fatalf("seed %d: stall %s with the steps since the begin, want %s", seed, got, want)
		}
	}
}
