//go:build linux

package compare

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iqgate/iqgate/integration/process"
)

// patience is for a run that takes some 6 s on an idle machine.
const patience = time.Minute

// A node and a bare server are really measured, what the product lacks is said to be missing, and nothing is left.
func TestOneMeasureWithoutJava(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a node for some seconds")
	}
	bin, temp := t.TempDir(), t.TempDir()
	for _, name := range []string{"iqnode", "iqrouter", "iqbench"} { // as users have them: without any tag
		if _, err := process.Build(t.Context(), bin, name); err != nil {
			t.Fatal(err)
		}
	}
	report := filepath.Join(t.TempDir(), "new", "report.md")
	p, err := process.Start(process.Spec{
		Path: filepath.Join(bin, "iqbench"), Log: filepath.Join(t.TempDir(), "log"), Env: []string{"TMPDIR=" + temp},
		Args: []string{"compare", "--quick", "--kafka", "embedded", "--only", "echo,lookups", "--rounds", "1", "--records", "20000", "--json", "--report", report},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Error("it does not end")
		p.Kill()
	}
	text, err := p.Log()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Err(); err != nil {
		t.Fatalf("it ended with %v; it says\n%s", err, text)
	}
	var got struct{ Rows []result }
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil || len(got.Rows) != 2 {
		t.Fatalf("the last line is no object with two rows: %v; it says\n%s", err, text)
	}
	echo, lookups := got.Rows[0], got.Rows[1]
	if echo.Missing != "" || echo.Ours < 100 || echo.Theirs < 100 || echo.Ratio != echo.Ours/echo.Theirs || echo.OK != (echo.Ratio >= echo.Want) {
		t.Errorf("echo is %+v", echo)
	}
	if s := echo.OursSpread; s == nil || s.Min > s.Median || s.Median > s.Max || s.Median != echo.Ours {
		t.Errorf("echo's spread is %+v", s)
	}
	if lookups.ID != idLookups || lookups.OK != (lookups.Missing == "" && lookups.Ratio >= lookups.Want) {
		t.Errorf("lookups are %+v", lookups)
	}
	for _, name := range []string{report, strings.TrimSuffix(report, ".md") + ".svg"} {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("%s is not written: %v", name, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files are left: %q, %v", left, err)
	}
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if line, err := os.ReadFile(name); err == nil && (bytes.Contains(line, []byte(temp)) || bytes.Contains(line, []byte(bin))) {
			t.Errorf("a process is left: %q", bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
		}
	}
}
