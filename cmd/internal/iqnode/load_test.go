package iqnode

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/cmd/internal/config/configtest"
)

const topologyText = `application: counts
sources: [{topic: words, format: raw}]
aggregates: [{store: counts, source: words, count: true}]
`

// Each case is one start of the program: lines that begin with "--" are arguments, IQNODE_ ones the environment, and what
// follows "file:" is node.yaml. T stands for the directory with node.yaml, topology.yaml and bad.yaml.
func TestLoad(t *testing.T) {
	datadriven.Walk(t, "testdata/load", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "topology.yaml"), topologyText)
			write(t, filepath.Join(dir, "bad.yaml"), "application: counts\nsources: [{topic: words, format: text}]\naggregate: []\n")
			head, file, hasFile := strings.Cut(d.Input, "file:\n")
			if hasFile || strings.HasSuffix(d.Input, "file:") {
				head = strings.TrimSuffix(head, "file:")
				write(t, filepath.Join(dir, "node.yaml"), strings.ReplaceAll(file, "T/", dir+"/")+"\n")
			}
			var args, env []string
			for line := range strings.Lines(head) {
				line = strings.ReplaceAll(strings.TrimSpace(line), "T/", dir+"/")
				switch {
				case strings.HasPrefix(line, "IQNODE_"):
					env = append(env, line)
				case line != "":
					args = append(args, strings.Fields(line)...)
				}
			}
			var out bytes.Buffer
			_, loaded, err := load(args, env)
			switch {
			case err != nil:
				fmt.Fprintln(&out, err)
			case loaded.Answer != "":
				line, _, _ := strings.Cut(loaded.Answer, "\n")
				fmt.Fprintln(&out, "answer:", strings.Fields(line)[0])
			default:
				for _, v := range loaded.Values {
					if v.Origin != "" {
						fmt.Fprintf(&out, "%s = %s (%s)\n", v.Setting.Name, v.Text, v.Origin)
					}
				}
				for _, name := range loaded.Strangers {
					fmt.Fprintln(&out, "stranger", name)
				}
			}
			return strings.ReplaceAll(out.String(), dir+"/", "T/")
		})
	})
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

var required = []string{"--node-id", "a", "--brokers", "127.0.0.1:9092", "--state-dir", "state"}

func withTopology(t *testing.T, more ...string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "topology.yaml")
	write(t, file, topologyText)
	return append(append([]string{"--topology", file}, required...), more...)
}

// Settings that nobody gives must be what package node says they are; else the help and the node's documentation differ.
func TestDefaultsAreThoseOfTheNode(t *testing.T) {
	configtest.DefaultsAreDocumented(t, (&settings{}).program(), "../../../node/config.go", 25)
}

func TestDocumentationIsCurrent(t *testing.T) {
	configtest.DocumentationIsCurrent(t, (&settings{}).program(), "../../../docs")
}

// Without this, 0 standbys would be the node's default of 1.
func TestZeroStandbysAreNone(t *testing.T) {
	s, _, err := load(withTopology(t, "--standbys", "0"), nil)
	if err != nil || s.node.Standbys != -1 {
		t.Fatalf("Standbys %v, error %v; want -1", s, err)
	}
}

func TestPrintedConfigLoadsAsTheSame(t *testing.T) {
	given := withTopology(t, "--rack", "eu: 1 # \"x\"", "--lease", "1s", "--routers", "a:1,b:2", "--sync-writes", "--max-copies", "-1", "--drain-timeout", "-1s")
	_, first, err := load(append([]string{"config", "print"}, given...), nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "node.yaml")
	write(t, file, first.Answer)
	s, again, err := load([]string{"--config", file, "--print-config"}, nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, first.Answer)
	}
	values := func(text string) string { // without where they came from
		var b strings.Builder
		for line := range strings.Lines(text) {
			if at := strings.LastIndex(line, " # "); at > 0 {
				line = strings.TrimRight(line[:at], " ") + "\n"
			}
			b.WriteString(line)
		}
		return b.String()
	}
	if a, b := values(first.Answer), values(again.Answer); a != b {
		t.Errorf("printed:\n%s\nand, loaded from that:\n%s", a, b)
	}
	if c := s.node; c.Lease != time.Second || !c.SyncWrites || c.MaxCopies != -1 || c.DrainTimeout != -1 || len(c.Routers) != 2 {
		t.Errorf("loaded as %+v", c)
	}
}

// TestAPasswordIsNeverPrinted, wherever it was put.
func TestAPasswordIsNeverPrinted(t *testing.T) {
	const password = "correct-horse"
	args := withTopology(t, "--print-config", "--kafka-sasl", "plain", "--kafka-user", "u")
	_, loaded, err := load(args, []string{"IQNODE_KAFKA_PASSWORD=" + password})
	if err != nil || strings.Contains(loaded.Answer, password) || !strings.Contains(loaded.Answer, "# kafka-password: not shown, from IQNODE_KAFKA_PASSWORD") {
		t.Errorf("error %v, printed %v", err, loaded)
	}
	file := filepath.Join(t.TempDir(), "node.yaml")
	write(t, file, "kafka-password: "+password+"\n")
	for _, wrong := range [][]string{{"--kafka-password", password}, {"--kafka-password=" + password}, {"--config", file}} {
		_, _, err := load(withTopology(t, wrong...), nil)
		if err == nil || strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "is a secret") || !strings.Contains(err.Error(), "kafka-password-file") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

func TestCrashPlanCountsItsStepAlone(t *testing.T) {
	for _, bad := range []string{"flush", "flush:0", "flush:x", "nowhere:1", ":1", "flush:-1"} {
		if _, err := parseCrashPlan(bad); err == nil || !strings.Contains(err.Error(), crashVariable) {
			t.Errorf("%q: error %v, want one that names %s", bad, err, crashVariable)
		}
	}
	p, err := parseCrashPlan("flush:2")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"end", "flush", "end", "end"} { // the second flush would end this test
		if err := p.step(step); err != nil {
			t.Fatal(err)
		}
	}
}

// The steps are strings in both packages; a crash plan that names a step the node does not have would never crash.
func TestCrashStepsAreThoseOfTheNode(t *testing.T) {
	src, err := os.ReadFile("../../../node/steps.go")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, m := range regexp.MustCompile(`(?m)^\tstep[A-Z]\w* *= "(\w+)"`).FindAllSubmatch(src, -1) {
		have = append(have, string(m[1]))
	}
	if strings.Join(have, " ") != strings.Join(crashSteps, " ") {
		t.Errorf("the node has steps %v, a crash plan knows %v", have, crashSteps)
	}
}
