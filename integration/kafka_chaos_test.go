//go:build kafka

package integration

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var errNotBack = errors.New("it is not")

// chaosFor is how long faults begin; the whole takes about a minute more.
const chaosFor = "60s"

// The chaos command plays what its seed chooses, for a while, and finds no promise broken. `make chaos` does so for an hour.
func TestKafkaChaos(t *testing.T) {
	a := newApp(t, tableYAML, nil) // for the Kafka that it needs to be there
	bin := filepath.Dir(program(a.ctx, t, "iqnode"))
	program(a.ctx, t, "iqrouter")
	cmd := exec.CommandContext(a.ctx, program(a.ctx, t, "iqbench"), "chaos", "--for", chaosFor, "--bin", bin, "--records", "500", "--reads", "300")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.CombinedOutput()
	text := string(out)
	if i := strings.Index(text, "\nmixed:"); err == nil && i >= 0 {
		text = text[i:]
	}
	t.Log(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seed ", "counts exact: yes", "replicas compared"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q", want)
		}
	}
}
