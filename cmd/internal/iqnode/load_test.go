package iqnode

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
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
			s, err := load(args, env)
			switch {
			case errors.Is(err, flag.ErrHelp):
				out.WriteString("help\n")
			case err != nil:
				fmt.Fprintln(&out, err)
			default:
				for _, g := range s.given {
					if g.origin != "" {
						fmt.Fprintf(&out, "%s = %s (%s)\n", g.name, g.text, g.origin)
					}
				}
				for _, name := range s.strangers {
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
	f, err := parser.ParseFile(token.NewFileSet(), "../../../node/config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			if m := defaultIn.FindStringSubmatch(field.Doc.Text()); m != nil {
				documented[field.Names[0].Name] = strings.ReplaceAll(m[1], ",", "")
			}
		}
		return false
	})
	translate := map[string]string{"MODE_ACTIVE": "active", "16 MiB": "16777216", "64 MiB": "67108864"}
	compared := 0
	for _, o := range allSettings() {
		want, ok := documented[o.field]
		if !ok || o.def == "" {
			continue
		}
		if text, ok := translate[want]; ok {
			want = text
		}
		if o.def != want {
			t.Errorf("%s: default %q, node.Config.%s documents %q", o.name, o.def, o.field, want)
		}
		compared++
	}
	if compared < 20 {
		t.Errorf("only %d defaults were found in node/config.go", compared)
	}
}

var defaultIn = regexp.MustCompile(`Default (127\.0\.0\.1:0|MODE_ACTIVE|-?[0-9][0-9,]*(?: MiB|ms|s)?)`)

// Without this, 0 standbys would be the node's default of 1.
func TestZeroStandbysAreNone(t *testing.T) {
	s, err := load(withTopology(t, "--standbys", "0"), nil)
	if err != nil || s.node.Standbys != -1 {
		t.Fatalf("Standbys %v, error %v; want -1", s, err)
	}
}

func TestPrintedConfigLoadsAsTheSame(t *testing.T) {
	s, err := load(withTopology(t, "--rack", "eu: 1 # \"x\"", "--lease", "1s", "--routers", "a:1,b:2", "--sync-writes"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	printConfig(&first, s)
	file := filepath.Join(t.TempDir(), "node.yaml")
	write(t, file, first.String())
	again, err := load([]string{"--config", file}, nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, first.String())
	}
	for i := range again.given {
		again.given[i].origin = s.given[i].origin
	}
	printConfig(&second, again)
	if first.String() != second.String() || again.node.Lease != time.Second || !again.node.SyncWrites {
		t.Errorf("printed:\n%s\nand, loaded from that:\n%s", first.String(), second.String())
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
