package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Commands of the tables:
//
//	spread      the input: values
//	judge judge=ratio-at-least want=2 [theirs=none]   the input: "ours: values", "theirs: values", "missing: ours because why"
//	peak        the input: a process's status as Linux writes it
//	cpu         the input: a process's stat as Linux writes it
//	restored    the input: the lines that the peer prints
//	options     [rounds=3] [records=0] [kafka=real] [nice=0] [only=a;b] [report=file]
//	report, json, markdown, plot   of a sample with a row of each kind
func TestArithmeticAsText(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "spread":
				s := spreadOf(numbers(t, d.Input))
				return fmt.Sprintf("%g %g %g\n", s.Min, s.Median, s.Max)
			case "judge":
				out := judged(rowOf(t, d), figuresOf(t, d.Input))
				return fmt.Sprintf("%s ours=%g theirs=%g ratio=%.3g ok=%t wanted=%q score=%.3g %s\n",
					out.verdict(), out.Ours, out.Theirs, out.Ratio, out.OK, out.wanted(), out.score(), out.Missing)
			case "peak":
				mb, err := parsePeak(d.Input)
				if err != nil {
					return "error: " + err.Error() + "\n"
				}
				return fmt.Sprintf("%.1f MB\n", mb)
			case "cpu":
				used, err := parseCPU(d.Input)
				if err != nil {
					return "error: " + err.Error() + "\n"
				}
				return used.String() + "\n"
			case "restored":
				rate, err := restoredRate(eventsOf(d.Input))
				if err != nil {
					return "error: " + err.Error() + "\n"
				}
				return fmt.Sprintf("%.0f records/s\n", rate)
			case "options":
				err := optionsOf(t, d).check()
				if err != nil {
					return "error: " + err.Error() + "\n"
				}
				return "good\n"
			case "report":
				return sampleReport().text()
			case "markdown":
				return sampleReport().markdown("sample.svg")
			case "json":
				line, err := sampleReport().jsonLine()
				if err != nil {
					t.Fatal(err)
				}
				return line
			case "plot":
				return plot(sampleReport().Rows)
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
				return ""
			}
		})
	})
}

func numbers(t *testing.T, text string) (all []float64) {
	t.Helper()
	for f := range strings.FieldsSeq(text) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func rowOf(t *testing.T, d *datadriven.TestData) row {
	t.Helper()
	r := row{id: "x", text: "a row", unit: "units", ours: "ours", theirs: "theirs"}
	var name, theirs string
	d.ScanArgs(t, "judge", &name)
	for _, j := range []judge{ratioAtLeast, ratioAtMost, oursAtMost, oursAtLeast, nothing} {
		if strings.ReplaceAll(j.String(), " ", "-") == name {
			r.judge = j
		}
	}
	d.MaybeScanArgs(t, "want", &r.want)
	if d.MaybeScanArgs(t, "theirs", &theirs); theirs == "none" {
		r.theirs = ""
	}
	return r
}

func figuresOf(t *testing.T, text string) *figures {
	t.Helper()
	f := newFigures()
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if side, why, ok := strings.Cut(rest, " because "); ok && name == "missing" {
			f.missing[side] = why
			continue
		}
		f.values[name] = numbers(t, rest)
	}
	return f
}

func optionsOf(t *testing.T, d *datadriven.TestData) Options {
	t.Helper()
	o := Options{Kafka: kafkaReal, Rounds: 3}
	d.MaybeScanArgs(t, "kafka", &o.Kafka)
	d.MaybeScanArgs(t, "rounds", &o.Rounds)
	d.MaybeScanArgs(t, "nice", &o.Nice)
	d.MaybeScanArgs(t, "records", &o.Records)
	d.MaybeScanArgs(t, "report", &o.Report)
	var only string
	if d.MaybeScanArgs(t, "only", &only); only != "" {
		o.Only = strings.Split(only, ";")
	}
	return o
}

// sampleReport has a row of each kind.
func sampleReport() report {
	f := newFigures()
	f.values["a"], f.values["b"] = []float64{52_000, 48_000, 50_000}, []float64{40_000, 41_000, 39_000}
	f.values["p99"], f.values["start"] = []float64{3000, 2900, 3100}, []float64{0.4, 0.5, 0.6}
	f.missing["lookups"] = "the product has no Lookups stream"
	rows := []row{
		{"get", "a rate", unitRate, "a", "b", ratioAtLeast, 1.05},
		{"get", "a latency", unitMicros, "p99", "b", ratioAtMost, 0.01},
		{"lookups", "a stream", unitRate, "lookups", "b", ratioAtLeast, 3},
		{"start", "a start", unitSeconds, "start", "", oursAtMost, 1},
	}
	rep := report{Quick: true, Rounds: 3, Kafka: kafkaReal, Records: 300_000, Seconds: 240, Machine: machine{
		CPU: "Some CPU", CPUs: 2, MemoryGB: 8, Kernel: "6.1", LoadMin: 0.5, LoadMax: 2.5, Commit: "abc", Go: "go1.26", GRPC: "v1", Java: "25.0.1", Begun: "2026-01-02T03:04:05Z",
	}}
	for _, r := range rows {
		rep.Rows = append(rep.Rows, judged(r, f))
	}
	rep.References = append(rep.References, judged(row{"get", "a reference", unitRate, "a", "b", nothing, 0}, f))
	return rep
}

// The share of values at or below a quantile is at least q, and that of values below it less.
func TestQuantileIsTheLeastThatCoversItsShare(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		all := make([]time.Duration, 1+random.IntN(20))
		for i := range all {
			all[i] = time.Duration(random.IntN(8))
		}
		slices.Sort(all)
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			got := quantile(all, q)
			atMost, below := 0, 0
			for _, d := range all {
				if d <= got {
					atMost++
				}
				if d < got {
					below++
				}
			}
			n := float64(len(all))
			if float64(atMost) < math.Max(q*n, 1) || q > 0 && float64(below) >= q*n {
				t.Fatalf("quantile %g of %v is %d: %d are at most that, %d below", q, all, got, atMost, below)
			}
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("nothing has a quantile")
	}
}

// halfway gives its first figure, and fails on the second one in the second of three rounds.
type halfway struct{ taken *[]int }

func (halfway) gives() []string { return []string{"first", "second"} }

func (h halfway) take(_ context.Context, r *run) error {
	*h.taken = append(*h.taken, r.round)
	r.give("first", float64(r.round))
	if r.round == 1 {
		return errors.New("broken")
	}
	r.give("second", 1)
	return nil
}

func TestFailedMeasureLosesOnlyTheFiguresItDidNotGive(t *testing.T) {
	var taken []int
	r := &run{o: Options{Rounds: 3}, errs: io.Discard, figures: newFigures(), subjects: map[string]any{}, need: map[string]bool{"first": true, "second": true, "third": true}}
	if err := r.playGroup(t.Context(), group{halfway{&taken}, missing{"third", "not there"}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(taken, []int{0, 1, 2}) || !slices.Equal(r.figures.values["first"], []float64{0, 1, 2}) {
		t.Errorf("taken in rounds %v, the first figure is %v", taken, r.figures.values["first"])
	}
	if v, ok := r.figures.values["second"]; ok || r.figures.missing["second"] != "broken" || !r.failed {
		t.Errorf("the second figure is %v, missing because %q", v, r.figures.missing["second"])
	}
	if r.figures.missing["third"] != "not there" || r.figures.missing["first"] != "" {
		t.Errorf("missing: %v", r.figures.missing)
	}
}

// Each figure of the table is given by exactly one measure, or a row could never be filled or would mix two.
func TestEachFigureHasOneMeasure(t *testing.T) {
	given := map[string]int{}
	for _, g := range groups() {
		for _, m := range g {
			for _, figure := range m.gives() {
				given[figure]++
			}
		}
	}
	for figure := range needed(append(rows(), references()...)) {
		if given[figure] != 1 {
			t.Errorf("figure %q is given by %d measures", figure, given[figure])
		}
	}
	if got := len(chosen(rows(), []string{idRouter})); got != 2 {
		t.Errorf("router has %d rows, want 2", got)
	}
}
