//go:build faultproof

package fault_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// proofs name, for each fault, a test that must fail with it.
var proofs = []struct{ fault, folder, test string }{
	{"LagOffByOne", "node", "TestMeasureLagSituations"},
	{"ApplyBeforeCommit", "integration", "TestCommitProtocolTraces"},
	{"LeaseIgnored", "group", "TestLeaseCountsFromTheSending"},
	{"PromiseUnchecked", "integration", "TestS11OversizedRecordAborts"},
	{"GenerationIgnored", "metadata", "TestViewByText"},
	{"PositionBeforeData", "store", "TestPositionIsNotSentBeforeTheDataAreAcknowledged"},
	{"RestoreToLSO", "integration", "TestS06OpenTransactionIsWaitedFor"},
	{"MarkerNotCounted", "integration", "TestS05CommitMarkerLeavesNoLag"},
	{"PolicyNotRejudged", "integration", "TestS06OpenTransactionIsWaitedFor"},
	{"TokenOfOtherAccepted", "auth", "TestDecide"},
}

// proofTimeout bounds one run of a test.
const proofTimeout = time.Minute

// A fault that no test catches is a promise that nobody keeps. The tests are built with the faults compiled in; they pass
// while none is on, and with each fault, one by one, the test that is named for it fails.
func TestEveryFaultIsCaught(t *testing.T) {
	named := names(t)
	for _, p := range proofs {
		if !slices.Contains(named, p.fault) {
			t.Errorf("there is no fault %s", p.fault)
		}
		named = slices.DeleteFunc(named, func(n string) bool { return n == p.fault })
	}
	if len(named) > 0 {
		t.Errorf("no test is named for %v", named)
	}
	dir := t.TempDir()
	built := make(map[string]string)
	tests := make(map[string][]string)
	for _, p := range proofs {
		tests[p.folder] = append(tests[p.folder], p.test)
		if built[p.folder] == "" {
			built[p.folder] = build(t, dir, p.folder)
		}
	}
	for folder, all := range tests {
		t.Run("none/"+folder, func(t *testing.T) {
			if text, err := run(t, built[folder], folder, "", all...); err != nil {
				t.Fatalf("without a fault the tests must pass: %v\n%s", err, text)
			}
		})
	}
	for _, p := range proofs {
		t.Run(p.fault, func(t *testing.T) {
			text, err := run(t, built[p.folder], p.folder, p.fault, p.test)
			var exit *exec.ExitError
			switch {
			case err == nil:
				t.Errorf("%s of %s passes with it: nobody would notice", p.test, p.folder)
			case !errors.As(err, &exit):
				t.Error(err)
			case !strings.Contains(text, "--- FAIL: "+p.test) && !strings.Contains(text, "panic: "):
				t.Errorf("%s did not run: %v\n%s", p.test, err, text)
			}
		})
	}
}

// names are the faults that there are.
func names(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile("on.go")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile(`(\w+)\s+= on\("(\w+)"\)`).FindAllStringSubmatch(string(source), -1) {
		if m[1] != m[2] {
			t.Errorf("%s is asked for as %s", m[1], m[2])
		}
		all = append(all, m[1])
	}
	return all
}

// build compiles the tests of a folder with the faults in them.
func build(t *testing.T, dir, folder string) string {
	t.Helper()
	binary := filepath.Join(dir, strings.ReplaceAll(folder, "/", "-")+".test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "fault,synctests", "-o", binary, "./"+folder) //nolint:gosec // our own
	cmd.Dir = ".."
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the tests of %s: %v\n%s", folder, err, text)
	}
	return binary
}

// run runs tests of a folder with a fault on, or none.
func run(t *testing.T, binary, folder, name string, tests ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proofTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.count=1", "-test.failfast", "-test.run", "^("+strings.Join(tests, "|")+")$") //nolint:gosec // our own
	cmd.Dir = filepath.Join("..", filepath.FromSlash(folder))
	cmd.Env = append(os.Environ(), "IQGATE_FAULT="+name)
	text, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return string(text), ctx.Err()
	}
	return string(text), err
}
