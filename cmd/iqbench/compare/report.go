package compare

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/iqgate/iqgate/cmd/internal/human"
)

// report is the result of a run as one object.
type report struct {
	Rows       []result `json:"rows"`
	References []result `json:"references"`
	Quick      bool     `json:"quick"`
	Rounds     int      `json:"rounds"`
	Kafka      string   `json:"kafka"`
	Records    int      `json:"records"`
	Seconds    float64  `json:"seconds"`
	Machine    machine  `json:"machine"`
}

// jsonLine is the result as one line.
func (p report) jsonLine() (string, error) {
	if p.Rows == nil {
		p.Rows = []result{}
	}
	if p.References == nil {
		p.References = []result{}
	}
	text, err := json.Marshal(p)
	return string(text) + "\n", err
}

const tableRow = "%-4s %-76s %9s %9s %7s  %s\n"

// text is the report for a person.
func (p report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n"+tableRow, "", "medians of "+human.Count(p.Rounds, "round"), "ours", "theirs", "ratio", "wanted")
	for _, row := range append(slices.Clip(p.Rows), p.References...) {
		fmt.Fprintf(&b, tableRow, row.verdict(), row.Measure, number(row.Ours), number(row.Theirs), ratioText(row.Ratio), row.wanted())
		if row.Missing != "" {
			fmt.Fprintf(&b, "     %s\n", row.Missing)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", p.conditions())
	return b.String()
}

// verdict is the row's outcome in a word.
func (r result) verdict() string {
	switch {
	case r.judge == nothing:
		return "-"
	case r.OK:
		return "ok"
	case r.Missing != "":
		return "miss"
	}
	return "NO"
}

// wanted is what is wanted, in words.
func (r result) wanted() string {
	switch r.judge {
	case ratioAtLeast:
		return fmt.Sprintf(">= %gx, %s", r.Want, r.Unit)
	case ratioAtMost:
		return fmt.Sprintf("<= %gx, %s", r.Want, r.Unit)
	case oursAtMost:
		return fmt.Sprintf("ours <= %g %s", r.Want, r.Unit)
	case oursAtLeast:
		return fmt.Sprintf("ours >= %g %s", r.Want, r.Unit)
	case nothing:
	}
	return r.Unit
}

// conditions says how and on what it was measured.
func (p report) conditions() string {
	m := p.Machine
	java := "no Java"
	if m.Java != "" {
		java = "JDK " + m.Java + " (G1, 1 GB heap, grpc-java's direct executor, warmed up)"
	}
	size := "full size"
	if p.Quick {
		size = "quick"
	}
	return fmt.Sprintf("%s, %s records, %s Kafka; %d x %s, %.0f GB, Linux %s, load average %.1f to %.1f; commit %s, %s, grpc-go %s, %s; begun %s, took %.0fs",
		size, human.Thousands(int64(p.Records)), p.Kafka, m.CPUs, m.CPU, m.MemoryGB, m.Kernel, m.LoadMin, m.LoadMax, m.Commit, m.Go, m.GRPC, java, m.Begun, p.Seconds)
}

// markdown is the report as a file, with a picture beside it.
func (p report) markdown(picture string) string {
	var b strings.Builder
	b.WriteString("# iqgate beside Kafka Streams\n\n")
	fmt.Fprintf(&b, "%s.\n\nAbsolute figures move with the machine; the ratios of one run are what counts. A figure is the median of %s, in brackets the least and the most.\n\n",
		p.conditions(), human.Count(p.Rounds, "round"))
	p.markdownTable(&b, p.Rows)
	fmt.Fprintf(&b, "\n![ratio to what is wanted](%s)\n", picture)
	if len(p.References) > 0 {
		b.WriteString("\n## For reference\n\n")
		p.markdownTable(&b, p.References)
	}
	return b.String()
}

func (p report) markdownTable(b *strings.Builder, rows []result) {
	b.WriteString("| measure | unit | ours | theirs | ratio | wanted | |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, row := range rows {
		verdict := row.verdict()
		if row.Missing != "" {
			verdict = row.Missing
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", row.Measure, row.Unit,
			spreadText(row.OursSpread), spreadText(row.TheirsSpread), ratioText(row.Ratio), row.wanted(), strings.ReplaceAll(verdict, "|", `\|`))
	}
}

// save writes the Markdown file and the picture.
func (p report) save(name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err
	}
	picture := strings.TrimSuffix(name, ".md") + ".svg"
	if err := os.WriteFile(picture, []byte(plot(p.Rows)), 0o600); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(p.markdown(filepath.Base(picture))), 0o600)
}

func spreadText(s *spread) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.Median), number(s.Min), number(s.Max))
}

// number writes a figure with as many digits as it deserves; 0, which no figure is, as a dash.
func number(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 1000:
		return human.Thousands(int64(v + 0.5))
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func ratioText(v float64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + "x"
}

func (r *run) sayRate(what string, res loadResult, cpu float64) {
	r.say(fmt.Sprintf("%s: %s reads/s, p50 %.0fus, p99 %.0fus, %.0fus CPU%s", what, human.Thousands(int64(res.rate)), micros(res.p50), micros(res.p99), cpu, failedText(res)))
}

func (r *run) sayLatency(what string, res loadResult) {
	r.say(fmt.Sprintf("%s, one at a time: p50 %.0fus, p99 %.0fus of %s%s", what, micros(res.p50), micros(res.p99), human.Thousands(int64(res.answered)), failedText(res)))
}

func (r *run) sayRecords(what string, rate float64) {
	r.say(fmt.Sprintf("%s %s records/s", what, human.Thousands(int64(rate))))
}

// failedText tells of failed lookups, of which there are few.
func failedText(res loadResult) string {
	if res.failed == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d failed, the first: %v)", res.failed, res.first)
}
