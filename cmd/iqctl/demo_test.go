//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iqgate/iqgate/integration/process"
)

// demoPatience bounds a run of the demo beyond its duration.
const demoPatience = time.Minute

// demoProcess starts the program's demo with a temporary directory of its own.
func demoProcess(t *testing.T, path string, args ...string) (p *process.Process, output func() string, dir string) {
	t.Helper()
	dir = t.TempDir()
	log := filepath.Join(t.TempDir(), "demo.log")
	p, err := process.Start(process.Spec{Path: path, Args: append([]string{"demo"}, args...), Env: []string{"TMPDIR=" + dir}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}, dir
}

// leftovers are the processes whose command line names dir, which is in that of every node, and the files in it.
func leftovers(t *testing.T, dir string) (left []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline") // none where there is no /proc
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(dir)) {
			left = append(left, string(bytes.ReplaceAll(text, []byte{0}, []byte(" "))))
		}
	}
	return append(left, files...)
}

func ends(t *testing.T, p *process.Process, output func() string, within time.Duration) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(within):
		t.Fatalf("the demo does not end; it says\n%s", output())
	}
}

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a cluster for some seconds")
	}
	path, err := process.Build(t.Context(), t.TempDir(), "iqctl") // as users have it: without any tag
	if err != nil {
		t.Fatal(err)
	}
	t.Run("is exact, and no stale-tolerant read fails through the kill", func(t *testing.T) { demoIsExact(t, path) })
	t.Run("leaves nothing behind when interrupted", func(t *testing.T) { demoLeavesNothing(t, path) })
}

func demoIsExact(t *testing.T, path string) {
	t.Helper()
	const duration = 12 * time.Second
	p, output, dir := demoProcess(t, path, "--duration", duration.String(), "--json")
	ends(t, p, output, duration+demoPatience)
	if err := p.Err(); err != nil {
		t.Fatalf("%v; it says\n%s", err, output())
	}
	lines := strings.Split(strings.TrimSpace(output()), "\n")
	var got struct {
		RecordsIn    int      `json:"records_in"`
		SumOfCounts  int      `json:"sum_of_counts"`
		ExactlyOnce  bool     `json:"exactly_once"`
		Top          [][2]any `json:"top_destinations"`
		KillAt       int64    `json:"kill_at_ms"`
		FirstStandby int64    `json:"first_standby_read_after_kill_ms"`
		StrongBack   int64    `json:"strong_back_after_kill_ms"`
		Reads        []struct {
			Policy       string         `json:"policy"`
			Served       int            `json:"served"`
			Failed       int            `json:"failed"`
			ByRole       map[string]int `json:"by_role"`
			LongestGapMS int64          `json:"longest_gap_ms"`
			Broken       int            `json:"bound_broken"`
		} `json:"reads"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatalf("the last line is no object: %v; it says\n%s", err, output())
	}
	if got.RecordsIn != 27004 || got.SumOfCounts != 27004 || !got.ExactlyOnce {
		t.Errorf("%d in, %d counted, exactly once %t; it says\n%s", got.RecordsIn, got.SumOfCounts, got.ExactlyOnce, output())
	}
	if want := [][2]any{{"ATL", 1396.}, {"ORD", 1269.}, {"BOS", 1245.}}; len(got.Top) < 3 || !reflect.DeepEqual(got.Top[:3], want) {
		t.Errorf("top destinations %v, want first %v", got.Top, want)
	}
	if got.KillAt < 4000 || got.FirstStandby < 0 || got.StrongBack < 0 {
		t.Errorf("killed at %d ms, first standby read after %d ms, strong reads after %d ms", got.KillAt, got.FirstStandby, got.StrongBack)
	}
	seen := map[string]bool{}
	for _, r := range got.Reads {
		seen[r.Policy] = true
		if r.Served == 0 || r.Broken > 0 || r.ByRole["active"]+r.ByRole["standby"]+r.ByRole["warmup"] != r.Served {
			t.Errorf("%+v: want some served, all by some role and none beyond the bound", r)
		}
		switch r.Policy {
		case "any", "max_staleness: 10s":
			if r.Failed > 0 { // whether a standby had to serve depends on how soon another active did
				t.Errorf("%+v: want none failed; it says\n%s", r, output())
			}
		case "strong", "active":
			if r.ByRole["active"] != r.Served {
				t.Errorf("%+v: answered by others than the active", r)
			}
		}
	}
	if len(seen) != 6 {
		t.Errorf("policies %v, want six", seen)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func demoLeavesNothing(t *testing.T, path string) {
	t.Helper()
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		p, output, dir := demoProcess(t, path)
		tick := time.NewTicker(10 * time.Millisecond)
		for deadline := time.Now().Add(demoPatience); !strings.Contains(output(), "feeding and reading begin"); <-tick.C {
			if time.Now().After(deadline) || !p.Alive() {
				t.Fatalf("the demo does not begin; it says\n%s", output())
			}
		}
		tick.Stop()
		if len(leftovers(t, dir)) == 0 {
			t.Error("no process and no directory while it runs: this test sees nothing")
		}
		if err := syscall.Kill(p.PID(), sig.(syscall.Signal)); err != nil {
			t.Fatal(err)
		}
		ends(t, p, output, demoPatience)
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("%v left behind %q; it says\n%s", sig, left, output())
		}
	}
}
