package main

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// TestExitCodesAreStable: scripts depend on the numbers. A change of this test breaks somebody's script.
func TestExitCodesAreStable(t *testing.T) {
	reasons := map[iqv1.Reason]int{
		iqv1.Reason_REASON_UNSPECIFIED: 1, iqv1.Reason_REASON_STORE_UNKNOWN: 1, iqv1.Reason_REASON_PARTITIONS_CHANGED: 1,
		iqv1.Reason_REASON_INVALID: 2, iqv1.Reason_REASON_STALE: 4, iqv1.Reason_REASON_POSITION_NOT_REACHED: 4,
		iqv1.Reason_REASON_NOT_READY: 5, iqv1.Reason_REASON_NOT_HOSTED: 5, iqv1.Reason_REASON_NO_ACTIVE: 5, iqv1.Reason_REASON_NO_REPLICA: 5,
		iqv1.Reason_REASON_OVERLOADED: 5, iqv1.Reason_REASON_CLOSING: 5, iqv1.Reason_REASON_CORRUPT: 5, iqv1.Reason_REASON_SLOW_READER: 5,
		iqv1.Reason_REASON_PAGE_LOST: 6, iqv1.Reason_REASON_UNAUTHENTICATED: 7, iqv1.Reason_REASON_PERMISSION_DENIED: 7,
	}
	for n := range iqv1.Reason_name {
		want, known := reasons[iqv1.Reason(n)]
		if got := exitCodeOf(iqv1.Reason(n)); !known || got != want {
			t.Errorf("%s: exit code %d, want %d (known: %t)", iqv1.Reason(n), got, want, known)
		}
	}
	for want, err := range map[int]error{
		0: nil, 1: status.Error(codes.Internal, "x"), 2: usagef("x"), 3: errNotFound, 4: &iqerr.StaleError{}, 5: status.Error(codes.DeadlineExceeded, "x"),
		6: &iqerr.PageLostError{}, 8: fmt.Errorf("x: %w", errDiffers), 9: errNotServed,
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
}

// TestEachExitCodeIsSaidOnce, in the help and in docs/iqctl.md.
func TestEachExitCodeIsSaidOnce(t *testing.T) {
	help, _, _ := runInMemory(t, []string{"--help"}, nil)
	text := readDoc(t)
	for i, c := range exitCodes {
		if c.code != i {
			t.Errorf("code %d stands in the place of %d", c.code, i)
		}
		if line := fmt.Sprintf("\n  %d  %s\n", c.code, c.says); strings.Count(help, line) != 1 {
			t.Errorf("the help has not one line %q", line)
		}
		if row := fmt.Sprintf("\n| %d | %s |\n", c.code, c.says); strings.Count(text, row) != 1 {
			t.Errorf("%s has not one row %q", docFile, row)
		}
	}
}

// TestProgressIsSeenOnATerminalAlone.
func TestProgressIsSeenOnATerminalAlone(t *testing.T) {
	for done, want := range map[int]string{0: "[------------------------] 0/4", 1: "[######------------------] 1/4", 4: "[########################] 4/4", 9: "[########################] 9/4"} {
		if got := bar(done, 4); got != want {
			t.Errorf("%d: %s, want %s", done, got, want)
		}
	}
	var errs strings.Builder
	(&app{errs: &errs}).newProgress().show(1, 2, "x")
	(&app{errs: &errs, progress: true, settings: settings{output: "json"}}).newProgress().show(1, 2, "x")
	if errs.Len() != 0 {
		t.Errorf("without a terminal: %q", errs.String())
	}
	p := (&app{errs: &errs, progress: true}).newProgress()
	p.show(1, 2, "x")
	p.show(1, 2, "x")
	p.clear()
	p.clear()
	if got, want := errs.String(), "\r\x1b[?7l[############------------] 1/2 x\x1b[K\x1b[?7h\r\x1b[K"; got != want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
}
