//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iqgate/iqgate/integration/process"
)

const (
	patience = time.Minute // of a run that takes 15 s on an idle machine
	look     = 20 * time.Millisecond
)

// start starts the program with a temporary directory of its own.
func start(t *testing.T, path string, args ...string) (p *process.Process, output func() string, dir string) {
	t.Helper()
	dir = t.TempDir()
	p, err := process.Start(process.Spec{Path: path, Args: args, Env: []string{"TMPDIR=" + dir}, Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, func() string {
		text, err := p.Log()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}, dir
}

// leftovers are the processes that name dir and the files in it.
func leftovers(t *testing.T, dir string) (left []string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(dir)) {
			left = append(left, string(bytes.ReplaceAll(text, []byte{0}, []byte(" "))))
		}
	}
	return left
}

func ends(t *testing.T, p *process.Process, output func() string) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatalf("it does not end; it says\n%s", output())
	}
}

func TestAvail(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a cluster for some seconds")
	}
	dir := t.TempDir()
	for _, name := range []string{"iqnode", "iqrouter", "iqbench"} { // as users have them: without any tag
		if _, err := process.Build(t.Context(), dir, name); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "iqbench")
	t.Run("tells what a kill did and counts exactly", func(t *testing.T) { t.Parallel(); availTells(t, path) })
	t.Run("leaves nothing behind when interrupted", func(t *testing.T) { t.Parallel(); availLeavesNothing(t, path) })
}

func availTells(t *testing.T, path string) {
	t.Helper()
	p, output, dir := start(t, path, "avail", "--scenario", "kill", "--rounds", "1", "--away", "1s", "--partitions", "4", "--records", "500", "--reads", "200", "--json")
	ends(t, p, output)
	type spread struct{ Min, Median, Max int64 }
	var got struct {
		Scenario string
		Rounds   int
		Exact    bool
		Policies []struct {
			Policy                       string
			Reads, Failed, Older, Untrue int
			Beyond                       int
			GapMS                        spread `json:"gap_ms"`
		}
		StallMS spread  `json:"stall_ms"`
		EveryMS float64 `json:"probe_every_ms"`
		Records int64
		Keys    int
		Broken  []string
	}
	lines := strings.Split(strings.TrimSpace(output()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatalf("the last line is no object: %v; it says\n%s", err, output())
	}
	if got.Scenario != "kill" || got.Rounds != 1 || !got.Exact || got.Records < 500 || got.Keys != 100 || got.EveryMS != 80 {
		t.Errorf("it says\n%s", output())
	}
	var names []string
	for _, d := range got.Policies {
		names = append(names, d.Policy)
		// Between two answers there is at least the time between two reads, or the machine ran faster than its clock.
		if d.Reads < 100 || d.GapMS.Min < 50 || d.GapMS.Max != d.GapMS.Min || d.GapMS.Median != d.GapMS.Min || d.Older+d.Beyond+d.Untrue > 0 {
			t.Errorf("%+v", d)
		}
	}
	if text := strings.Join(names, ", "); text != "any, max_staleness=5s, active wait=5s, strong wait=5s" {
		t.Errorf("policies %s", text)
	}
	// Nobody can take over before the last commit of the dead one is an interval old.
	if got.StallMS.Max < 100 {
		t.Errorf("processing stood still for %d ms", got.StallMS.Max)
	}
	if failed := p.Err() != nil; failed != (len(got.Broken) > 0) {
		t.Errorf("it ended with %v, and broken is %q", p.Err(), got.Broken)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func availLeavesNothing(t *testing.T, path string) {
	t.Helper()
	p, output, dir := start(t, path, "avail", "--nodes", "2", "--partitions", "2", "--records", "100", "--reads", "100")
	tick := time.NewTicker(look)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !strings.Contains(output(), "killed node-"); <-tick.C {
		if time.Now().After(deadline) || !p.Alive() {
			t.Fatalf("nothing is killed; it says\n%s", output())
		}
	}
	if len(leftovers(t, dir)) == 0 {
		t.Error("no process and no directory while it runs: this test sees nothing")
	}
	if err := syscall.Kill(p.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	ends(t, p, output)
	if p.Err() == nil || !strings.Contains(output(), "interrupted") {
		t.Errorf("it ended with %v and says\n%s", p.Err(), output())
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind %q; it says\n%s", left, output())
	}
}

func TestWrongCommandLinesAreUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"avail", "--scenario", "rain"},
		{"avail", "--no-such-flag"},
		{"avail", "more"},
		{"avail", "--bin", t.TempDir()},
	} {
		if code := run(t.Context(), args); code != exitUsage {
			t.Errorf("%q ends with %d, want %d", args, code, exitUsage)
		}
	}
}
