package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"
)

const inMemory = "passthrough:///up"

// TestCommandLines runs each line of testdata as a command and compares what it prints and its exit code. Arguments are
// split at blanks; two single quotes are an empty one. Each runs in a bubble, so that times measured are 0s.
func TestCommandLines(t *testing.T) {
	datadriven.Walk(t, "testdata/commands", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "iqctl" {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			env := map[string]string{routerEnv: inMemory}
			if d.HasArg("router") {
				var router string
				d.ScanArgs(t, "router", &router)
				env[routerEnv] = router
			}
			args := strings.Fields(d.Input)
			for i, a := range args {
				if a == "''" {
					args[i] = ""
				}
			}
			var text string
			synctest.Test(t, func(t *testing.T) {
				stdout, stderr, code := runInMemory(t, args, env)
				text = prefixed("", stdout) + prefixed("stderr: ", stderr) + fmt.Sprintf("exit %d\n", code)
			})
			return text
		})
	})
}

// prefixed marks each line; a blank line would end datadriven's output, so it becomes a dot.
func prefixed(prefix, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			line = ".\n"
		}
		b.WriteString(prefix + strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// TestJSONOutputIsOneObjectEverywhere: whatever a command says with -o json, a program can read it.
func TestJSONOutputIsOneObjectEverywhere(t *testing.T) {
	for _, line := range []string{
		"get flights-by-dest ATL --explain", "get flights-by-dest nosuch", "get tails N14228", "get delays 13", "get flights-by-dest bad",
		"explain flights-by-dest ATL", "explain flights-by-dest ATL --policy strong", "status", "lag", "metadata stores", "metadata instances",
		"metadata key flights-by-dest ATL", "metadata key flights-by-dest drop-1",
	} {
		stdout, stderr, code := runInMemory(t, append(strings.Fields(line), "-o", "json", "--router", inMemory), nil)
		var v map[string]any
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || stderr != "" || code != exitOK && code != exitNotFound {
			t.Errorf("%s: %v, exit %d\n%s%s", line, err, code, stdout, stderr)
		}
	}
	for _, line := range []string{"get nosuch k", "get flights-by-dest ATL --policy max_offset_lag=5", "get x", "nosuch", "lag --store nosuch"} {
		stdout, stderr, code := runInMemory(t, append(strings.Fields(line), "-o", "json", "--router", inMemory), nil)
		var v struct {
			Error struct {
				Message  string `json:"message"`
				ExitCode int    `json:"exit_code"`
			} `json:"error"`
		}
		if err := json.Unmarshal([]byte(stderr), &v); err != nil || stdout != "" || v.Error.Message == "" || v.Error.ExitCode != code {
			t.Errorf("%s: %v, exit %d\n%s%s", line, err, code, stdout, stderr)
		}
	}
}

// TestJSONLinesAreOneObjectEach, for the commands that print as they go.
func TestJSONLinesAreOneObjectEach(t *testing.T) {
	for _, line := range []string{
		"mget flights-by-dest ATL bad stale nosuch", "scan flights-by-dest", "scan tails --keys-only", "window clicks /home", "versions prices apple",
		"watch flights-by-dest --count 5", "drain b", "metadata watch --count 5",
	} {
		stdout, _, code := runInMemory(t, append(strings.Fields(line), "-o", "json", "--router", inMemory), nil)
		if code != exitOK && !strings.HasPrefix(line, "mget") || stdout == "" {
			t.Errorf("%s: exit %d\n%s", line, code, stdout)
		}
		for object := range strings.Lines(stdout) {
			var v map[string]any
			if err := json.Unmarshal([]byte(object), &v); err != nil || len(v) == 0 {
				t.Errorf("%s: %v: %s", line, err, object)
			}
		}
	}
}

// TestAWideTableIsAlignedAndLosesNothing: rows that come after the first screen, and are wider, have all their cells.
func TestAWideTableIsAlignedAndLosesNothing(t *testing.T) {
	var b strings.Builder
	table := liveTable{p: &printer{w: &b}, heading: []string{"A", "B"}}
	for i := range 2 * tableLookahead {
		table.row(strings.Repeat("x", i%7), "b\n")
	}
	table.row(strings.Repeat("y", 50), "last")
	table.flush()
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2*tableLookahead+2 || lines[0] != "A       B" || lines[1] != `-       "b\n"` || lines[len(lines)-1] != strings.Repeat("y", 50)+"  last" {
		t.Errorf("%d lines: %q, %q … %q", len(lines), lines[0], lines[1], lines[len(lines)-1])
	}
}

// TestHelpNamesEveryExitCode: scripts are written from the help.
func TestHelpNamesEveryExitCode(t *testing.T) {
	stdout, _, code := runInMemory(t, []string{"--help"}, nil)
	if code != exitOK {
		t.Errorf("exit %d", code)
	}
	for c := exitOK; c <= exitNotServed; c++ {
		if !strings.Contains(stdout, fmt.Sprintf("\n  %d  ", c)) {
			t.Errorf("exit code %d is not in the help:\n%s", c, stdout)
		}
	}
}
