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
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
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

// TestHelpNamesEveryExitCode: scripts are written from the help.
func TestHelpNamesEveryExitCode(t *testing.T) {
	stdout, _, code := runInMemory(t, []string{"--help"}, nil)
	if code != exitOK {
		t.Errorf("exit %d", code)
	}
	for c := exitOK; c <= exitUnavailable; c++ {
		if !strings.Contains(stdout, fmt.Sprintf("\n  %d  ", c)) {
			t.Errorf("exit code %d is not in the help:\n%s", c, stdout)
		}
	}
}
