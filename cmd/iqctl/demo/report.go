package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/iqgate/iqgate/cmd/internal/human"
)

const (
	topShown         = 5
	differencesShown = 10
)

// report is the result of a run as one object. Times are -1 where what they time has not happened, and 0 where nothing
// was to be killed.
type report struct {
	RecordsIn       int          `json:"records_in"`
	SumOfCounts     int          `json:"sum_of_counts"`
	ExactlyOnce     bool         `json:"exactly_once"`
	TopDestinations [][2]any     `json:"top_destinations"`
	Reads           []readReport `json:"reads"`
	Killed          string       `json:"killed"`
	KillAtMS        int64        `json:"kill_at_ms"`
	FirstStandbyMS  int64        `json:"first_standby_read_after_kill_ms"`
	StrongBackMS    int64        `json:"strong_back_after_kill_ms"`
	RestartAtMS     int64        `json:"restart_at_ms"`
	CaughtUpMS      int64        `json:"caught_up_after_restart_ms"`
	KeysCompared    int          `json:"keys_compared"`
	Differences     []string     `json:"differences"`
	Nodes           int          `json:"nodes"`
	Standbys        int          `json:"standbys"`
	Kafka           string       `json:"kafka"`
	DurationMS      int64        `json:"duration_ms"`
}

type readReport struct {
	Policy         string         `json:"policy"`
	Served         int            `json:"served"`
	Failed         int            `json:"failed"`
	ByRole         byRole         `json:"by_role"`
	LongestGapMS   int64          `json:"longest_gap_ms"`
	MaxStalenessMS int64          `json:"max_staleness_seen_ms"`
	BoundBroken    int            `json:"bound_broken"`
	FailedReasons  map[string]int `json:"failed_reasons,omitempty"`
	// FailedFirst is what the first failure for each reason said.
	FailedFirst map[string]string `json:"failed_first,omitempty"`
}

type byRole struct {
	Active  int `json:"active"`
	Standby int `json:"standby"`
	Warmup  int `json:"warmup,omitempty"`
}

// result makes the report. end is when the reads ended.
func (r *run) result(v verdict, end time.Duration) report {
	out := report{
		RecordsIn: int(r.fed.Load()), SumOfCounts: sum(v.got[byDest]), ExactlyOnce: len(v.differences) == 0,
		Nodes: r.o.Nodes, Standbys: r.o.Standbys, Kafka: r.o.Kafka, DurationMS: end.Milliseconds(),
		TopDestinations: [][2]any{}, Differences: []string{},
	}
	for _, t := range top(v.got[byDest], topShown) {
		out.TopDestinations = append(out.TopDestinations, [2]any{t.key, t.n})
	}
	for _, c := range r.flights.stores {
		out.KeysCompared += len(c)
	}
	for _, d := range v.differences[:min(len(v.differences), differencesShown)] {
		out.Differences = append(out.Differences, d.String())
	}
	for _, reader := range r.readers {
		t := reader.at(end)
		d := readReport{
			Policy: reader.policy.name, Served: t.served, Failed: t.failed, ByRole: byRole{t.active, t.standby, t.warmup},
			LongestGapMS: t.longestGap.Milliseconds(), MaxStalenessMS: t.stalest.Milliseconds(), BoundBroken: t.broken,
		}
		for reason, f := range t.reasons {
			if d.FailedReasons == nil {
				d.FailedReasons, d.FailedFirst = map[string]int{}, map[string]string{}
			}
			d.FailedReasons[reason], d.FailedFirst[reason] = f.count, f.first
		}
		out.Reads = append(out.Reads, d)
	}
	if killed, ok := r.kill.killed.get(); ok {
		out.Killed, out.KillAtMS = r.kill.node, killed.Milliseconds()
		out.FirstStandbyMS = r.kill.standby.since(killed)
		out.StrongBackMS = r.kill.strong.since(killed)
		again, _ := r.kill.again.get()
		out.RestartAtMS = r.kill.again.since(0)
		out.CaughtUpMS = r.kill.caught.since(again)
	}
	return out
}

// since is the time from a moment to the stamp in milliseconds, -1 if the stamp is not set.
func (s *stamp) since(begin time.Duration) int64 {
	at, ok := s.get()
	if !ok {
		return -1
	}
	return (at - begin).Milliseconds()
}

// json is the report as one line.
func (p report) json() (string, error) {
	text, err := json.Marshal(p)
	return string(text) + "\n", err
}

// tableRow is a row of a table of reads that fits a terminal of 80 columns.
const tableRow = "%-20s %7s %6s %9s %10s %11s %9s"

// text is the report for a person.
func (p report) text(s *screen) string {
	var b strings.Builder
	verdict := "Exactly once: yes."
	if !p.ExactlyOnce {
		verdict = "Exactly once: NO."
	}
	fmt.Fprintf(&b, "\n%s %s flights in, %s counted.\n", s.bold(verdict), human.Thousands(int64(p.RecordsIn)), human.Thousands(int64(p.SumOfCounts)))
	if p.ExactlyOnce {
		fmt.Fprintf(&b, "All %s keys of %d stores, read with strong through the router, equal a plain pass over the file.\n", human.Thousands(int64(p.KeysCompared)), len(storeNames))
	}
	for _, d := range p.Differences {
		fmt.Fprintf(&b, "  %s\n", d)
	}
	b.WriteString("Most flights went to")
	for _, t := range p.TopDestinations {
		fmt.Fprintf(&b, "  %v %s", t[0], human.Thousands(int64(t[1].(int))))
	}
	fmt.Fprintf(&b, "\n\n%s\n", s.bold(fmt.Sprintf(tableRow, "Reads", "served", "failed", "by active", "by standby", "longest gap", "stalest")))
	for _, d := range p.Reads {
		fmt.Fprintf(&b, tableRow+"\n", d.Policy, human.Thousands(int64(d.Served)), human.Thousands(int64(d.Failed)),
			human.Thousands(int64(d.ByRole.Active)), human.Thousands(int64(d.ByRole.Standby+d.ByRole.Warmup)), milliseconds(d.LongestGapMS), milliseconds(d.MaxStalenessMS))
	}
	b.WriteString(reasons(p.Reads))
	b.WriteString("  longest gap: between two answers, whichever key was asked for; stalest: the largest bound that a reply told\n")
	if p.Killed == "" {
		return b.String()
	}
	fmt.Fprintf(&b, "\n%s\n", s.bold(fmt.Sprintf("%s was killed at %s", p.Killed, milliseconds(p.KillAtMS))))
	line := func(what string, ms int64) { fmt.Fprintf(&b, "  %-46s %s\n", what, after(ms)) }
	line("first read of its keys from a standby", p.FirstStandbyMS)
	line("strong reads of all its keys are back", p.StrongBackMS)
	if p.RestartAtMS >= 0 {
		line("started again at "+milliseconds(p.RestartAtMS)+", all its replicas running", p.CaughtUpMS)
	}
	return b.String()
}

func milliseconds(ms int64) string { return human.Short(time.Duration(ms) * time.Millisecond) }

// after is a time of the report, -1 for never.
func after(ms int64) string {
	if ms < 0 {
		return "never"
	}
	return "after " + milliseconds(ms)
}

// reasons says why reads failed, a line for each policy that had failures.
func reasons(all []readReport) string {
	var b strings.Builder
	for _, d := range all {
		var parts []string
		for _, reason := range slices.Sorted(maps.Keys(d.FailedReasons)) {
			parts = append(parts, fmt.Sprintf("%s %d", reason, d.FailedReasons[reason]))
		}
		if len(parts) > 0 {
			fmt.Fprintf(&b, "  %s failed: %s\n", d.Policy, strings.Join(parts, ", "))
		}
		if d.BoundBroken > 0 {
			fmt.Fprintf(&b, "  %s: %s beyond the bound, which must not be\n", d.Policy, human.Count(d.BoundBroken, "answer"))
		}
	}
	return b.String()
}
