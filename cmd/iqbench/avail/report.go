package avail

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/iqgate/iqgate/cmd/internal/human"
)

// report is the result of a scenario as one object.
type report struct {
	Scenario string         `json:"scenario"`
	Rounds   int            `json:"rounds"`
	Exact    bool           `json:"exact"`
	Policies []policyReport `json:"policies"`
	// StallMS is how long processing stood still.
	StallMS spread `json:"stall_ms"`
	// RoundMS is how long a round took, until all was well again.
	RoundMS spread `json:"round_ms"`
	// ProbeEveryMS is the time between two reads of one partition under one policy, ProbeLateMS how late the latest was sent.
	ProbeEveryMS float64 `json:"probe_every_ms"`
	ProbeLateMS  spread  `json:"probe_late_ms"`
	// ColdTakeovers are those by replicas that were not running while another was.
	ColdTakeovers int    `json:"cold_takeovers"`
	FirstCold     string `json:"first_cold_takeover,omitempty"`
	// ExitMS is how long nodes took from SIGTERM to their end.
	ExitMS *spread `json:"exit_ms,omitempty"`
	// Sleeper is what a node said that was asked itself when it woke.
	Sleeper *sleeperReport `json:"sleeper,omitempty"`
	// Lag is what tolerant reads told while Kafka was away.
	Lag *lagReport `json:"lag,omitempty"`

	Records     int64    `json:"records"`
	Keys        int      `json:"keys"`
	Differences []string `json:"differences"`
	// Faults are those of scenario mixed, in their order; Skipped those that cannot be played on this machine, and why.
	Faults  []faultReport `json:"faults,omitempty"`
	Skipped []string      `json:"skipped_faults,omitempty"`
	// Compared is how many entries of replicas were compared with others' in the end. Of scenario mixed.
	Compared int64 `json:"compared_entries,omitempty"`

	// Broken are the promises that were broken, in words; none when the exit code is 0.
	Broken []string `json:"broken"`

	Kafka         string `json:"kafka"`
	Nodes         int    `json:"nodes"`
	Partitions    int    `json:"partitions"`
	Standbys      int    `json:"standbys"`
	RecordsPerSec int    `json:"records_per_s"`
	ReadsPerSec   int    `json:"reads_per_s"`
	ClientRetry   bool   `json:"client_retry"`
	Hedge         bool   `json:"hedge"`
	Seed          uint64 `json:"seed"`
}

type policyReport struct {
	Policy string `json:"policy"`
	Reads  int    `json:"reads"`
	Failed int    `json:"failed"`
	GapMS  spread `json:"gap_ms"`
	Older  int    `json:"older"`
	Beyond int    `json:"beyond"`
	Untrue int    `json:"untrue"`
	// FailedReasons counts failures by reason, FailedFirst is what the first of each said.
	FailedReasons map[string]int    `json:"failed_reasons,omitempty"`
	FailedFirst   map[string]string `json:"failed_first,omitempty"`
	FirstWrong    string            `json:"first_wrong,omitempty"`
}

type sleeperReport struct {
	Reads    int `json:"reads"`
	Answered int `json:"answered"`
	Older    int `json:"older"`
}

type lagReport struct {
	Reads int   `json:"reads"`
	MaxMS int64 `json:"max_ms"`
	// AboveMS is the most by which a lag told was larger than the time for which Kafka had been away.
	AboveMS int64 `json:"above_ms"`
}

// report sums the rounds up.
func (r *run) report(v verdict) report {
	rep := report{
		Scenario: r.scenario, Rounds: len(r.rounds), Exact: len(v.differences) == 0,
		ProbeEveryMS:  float64(len(r.probe.policies)*r.o.Partitions) * 1000 / float64(r.o.Reads),
		ColdTakeovers: r.watch.cold, FirstCold: r.watch.first,
		Records: v.records, Keys: v.keys, Differences: append([]string{}, v.differences[:min(len(v.differences), differencesKept)]...),
		Kafka: r.o.Kafka, Nodes: r.o.Nodes, Partitions: r.o.Partitions, Standbys: r.o.Standbys,
		RecordsPerSec: r.o.Records, ReadsPerSec: r.o.Reads, ClientRetry: !r.o.NoClientRetry || r.scenario == scenarioRouter || r.scenario == scenarioMixed, Hedge: r.o.Hedge, Seed: r.o.Seed,
	}
	of := func(figure func(round) time.Duration) spread {
		var all []time.Duration
		for _, one := range r.rounds {
			all = append(all, figure(one))
		}
		return spreadOf(all)
	}
	rep.StallMS = of(func(one round) time.Duration { return one.stall })
	rep.RoundMS = of(func(one round) time.Duration { return one.length })
	rep.ProbeLateMS = of(func(one round) time.Duration { return one.window.late })
	for i, pol := range r.probe.policies {
		rep.Policies = append(rep.Policies, r.policyReport(i, pol, of(func(one round) time.Duration { return one.gaps[i].length })))
	}
	if len(r.exits) > 0 {
		exits := spreadOf(r.exits)
		rep.ExitMS = &exits
	}
	if r.scenario == scenarioPause {
		rep.Sleeper = &sleeperReport{r.sleeper.reads, r.sleeper.answered, r.sleeper.older}
	}
	if r.scenario == scenarioBroker {
		rep.Lag = &lagReport{}
		for _, one := range r.rounds {
			l := one.window.lag
			rep.Lag.Reads += l.reads
			rep.Lag.MaxMS = max(rep.Lag.MaxMS, l.most.Milliseconds())
			rep.Lag.AboveMS = max(rep.Lag.AboveMS, l.above.Milliseconds())
		}
	}
	rep.Faults, rep.Skipped, rep.Compared = r.mixed.done, r.mixed.skipped, v.entries
	rep.Broken = append(r.broken(rep), v.replicas...)
	return rep
}

func (r *run) policyReport(i int, pol policy, gap spread) policyReport {
	p := policyReport{Policy: pol.name, GapMS: gap}
	for _, one := range r.rounds {
		t := one.window.tallies[i]
		p.Reads, p.Failed = p.Reads+t.reads, p.Failed+t.failed
		p.Older, p.Beyond, p.Untrue = p.Older+t.older, p.Beyond+t.beyond, p.Untrue+t.untrue
		if p.FirstWrong == "" {
			p.FirstWrong = t.firstWrong
		}
		for reason, f := range t.reasons {
			if p.FailedReasons == nil {
				p.FailedReasons, p.FailedFirst = map[string]int{}, map[string]string{}
			}
			if p.FailedReasons[reason] == 0 {
				p.FailedFirst[reason] = f.first
			}
			p.FailedReasons[reason] += f.count
		}
	}
	return p
}

// broken says which promises were broken.
func (r *run) broken(rep report) []string {
	broken := []string{}
	say := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	if !rep.Exact {
		say("counts are not exact: %s", strings.Join(rep.Differences, "; "))
	}
	for i, p := range rep.Policies {
		if failed := p.Failed - r.forgiven(rep, p); failed > 0 && r.probe.policies[i].tolerant {
			say("%d reads under %s failed", failed, p.Policy)
		}
		if p.Older+p.Beyond+p.Untrue > 0 {
			say("%d replies were older than must be, %d beyond their bound and %d untrue; the first: %s", p.Older, p.Beyond, p.Untrue, p.FirstWrong)
		}
	}
	if r.sleeper.older > 0 {
		say("the one who woke gave %d replies that were older than must be; the first: %s", r.sleeper.older, r.sleeper.firstWrong)
	}
	return broken
}

// lateProbe is how late reads are sent on a machine that cannot do what a run asks of it.
const lateProbe = 500 * time.Millisecond

// forgiven are the failed reads that say nothing of the product: in scenario mixed, which runs where other things run, those that
// were not answered in time on a machine that did not even send the reads in time.
func (r *run) forgiven(rep report, p policyReport) int {
	if r.scenario != scenarioMixed || rep.ProbeLateMS.Max < lateProbe.Milliseconds() {
		return 0
	}
	return p.FailedReasons["TIMEOUT"]
}

// jsonLine is the result as one line: the report of the scenario, or all of them in one object.
func jsonLine(o Options, reports []report, complete bool) (string, error) {
	var line any
	if o.Scenario != scenarioAll {
		line = reports[0]
	} else {
		all := struct {
			Scenario  string   `json:"scenario"`
			Rounds    int      `json:"rounds"`
			Exact     bool     `json:"exact"`
			Scenarios []report `json:"scenarios"`
		}{scenarioAll, o.Rounds, complete, reports}
		for _, rep := range reports {
			all.Exact = all.Exact && rep.Exact
		}
		line = all
	}
	text, err := json.Marshal(line)
	return string(text) + "\n", err
}

// roundText is a round in one line.
func (r *run) roundText(one round) string {
	var parts []string
	for i, pol := range r.probe.policies {
		g := one.gaps[i]
		text := fmt.Sprintf("%s %s in partition %d from %.1fs on", pol.name, human.Short(g.length), g.partition, g.from.Seconds())
		if n := one.window.tallies[i].failed; n > 0 {
			text += fmt.Sprintf(" (%d failed)", n)
		}
		parts = append(parts, text)
	}
	return fmt.Sprintf("all is well again after %s, processing stood still for %s; longest gaps:\n         %s",
		human.Short(one.length), human.Short(one.stall), strings.Join(parts, "\n         "))
}

const tableRow = "%-20s %9s %8s %9s %9s %9s\n"

// text is the report for a person.
func (p report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s, %s, %s, %s of each, %s Kafka; %s records/s, %s reads/s\n\n", p.Scenario,
		human.Count(p.Rounds, "round"), human.Count(p.Nodes, "node"), human.Count(p.Partitions, "partition"), human.Count(p.Standbys, "standby"), p.Kafka,
		human.Thousands(int64(p.RecordsPerSec)), human.Thousands(int64(p.ReadsPerSec)))
	fmt.Fprintf(&b, tableRow, "longest gap, ms", "reads", "failed", "min", "median", "max")
	row := func(name, reads, failed string, s spread) {
		fmt.Fprintf(&b, tableRow, name, reads, failed, human.Thousands(s.Min), human.Thousands(s.Median), human.Thousands(s.Max))
	}
	for _, d := range p.Policies {
		row(d.Policy, human.Thousands(int64(d.Reads)), human.Thousands(int64(d.Failed)), d.GapMS)
	}
	row("processing stall", "", "", p.StallMS)
	row("round", "", "", p.RoundMS)
	if p.ExitMS != nil {
		row("exit after SIGTERM", "", "", *p.ExitMS)
	}
	row("probe too late by", "", "", p.ProbeLateMS)
	fmt.Fprintf(&b, "\na gap contains the pause between two reads of a partition under one policy, %g ms; ", p.ProbeEveryMS)
	if p.ClientRetry {
		b.WriteString("the client knew both routers")
	} else {
		b.WriteString("no client tried again")
	}
	if p.Hedge {
		b.WriteString("; routers hedged reads that tolerate staleness")
	}
	b.WriteString("\n")
	for _, d := range p.Policies {
		for _, reason := range slices.Sorted(maps.Keys(d.FailedReasons)) {
			fmt.Fprintf(&b, "%s: %s %s, the first: %s\n", d.Policy, human.Thousands(int64(d.FailedReasons[reason])), reason, d.FailedFirst[reason])
		}
	}
	if p.ColdTakeovers > 0 {
		fmt.Fprintf(&b, "%s by copies that were not running while others were; the first: %s\n", human.Count(p.ColdTakeovers, "cold takeover"), p.FirstCold)
	}
	if s := p.Sleeper; s != nil {
		fmt.Fprintf(&b, "the one who woke was asked %d times itself, answered %d, and %d of them older than must be\n", s.Reads, s.Answered, s.Older)
	}
	if l := p.Lag; l != nil {
		fmt.Fprintf(&b, "while Kafka was away %s tolerant reads told of a time lag of up to %s, at most %s more than it was away\n",
			human.Thousands(int64(l.Reads)), ms(l.MaxMS), ms(l.AboveMS))
	}
	p.faultsText(&b)
	if p.Exact {
		fmt.Fprintf(&b, "counts exact: yes, %d keys of %s records\n", p.Keys, human.Thousands(p.Records))
	} else {
		fmt.Fprintf(&b, "counts exact: NO\n")
	}
	for _, text := range p.Broken {
		fmt.Fprintf(&b, "BROKEN: %s\n", text)
	}
	return b.String()
}

func ms(n int64) string { return human.Short(time.Duration(n) * time.Millisecond) }

// faultsText lists the faults with the reads that failed in their rounds.
func (p report) faultsText(b *strings.Builder) {
	if len(p.Faults) == 0 {
		return
	}
	fmt.Fprintf(b, "\nseed %d; %s:\n", p.Seed, human.Count(len(p.Faults), "fault"))
	for _, f := range p.Faults {
		reads, failed := 0, []string(nil)
		for _, policy := range slices.Sorted(maps.Keys(f.Reads)) {
			if reads += f.Reads[policy]; f.Failed[policy] > 0 {
				failed = append(failed, fmt.Sprintf("; %s failed under %s", human.Thousands(int64(f.Failed[policy])), policy))
			}
		}
		fmt.Fprintf(b, "%7.1fs  %-20s %s\n          well again after %s, processing stood still for %s, %s reads%s\n", f.AtS, f.Fault, f.Detail,
			ms(f.RoundMS), ms(f.StallMS), human.Thousands(int64(reads)), strings.Join(failed, ""))
	}
	if late := time.Duration(p.ProbeLateMS.Max) * time.Millisecond; late >= lateProbe {
		fmt.Fprintf(b, "this machine was too busy: reads were sent up to %s late, so timeouts are not held against anybody\n", human.Short(late))
	}
	for _, text := range p.Skipped {
		fmt.Fprintf(b, "not played: %s\n", text)
	}
	fmt.Fprintf(b, "replicas compared with one another and with their changelogs: %s entries\n", human.Thousands(p.Compared))
}
