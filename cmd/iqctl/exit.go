package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Exit codes. Scripts depend on them: add, never change.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitStale       = 4
	exitUnavailable = 5
	exitLost        = 6
	exitDenied      = 7
	exitDiffers     = 8
	exitNotServed   = 9
)

// exitCodes is what each code says. The help and docs/iqctl.md show it.
var exitCodes = []struct {
	code int
	says string
}{
	{exitOK, "done"},
	{exitError, "an error that none of these is"},
	{exitUsage, "the command line or the request is wrong"},
	{exitNotFound, "get, mget, asof, window, session, versions: the store has no such key, or not then"},
	{exitStale, "replicas live, but none is within the policy or has reached the position"},
	{exitUnavailable, "nobody could answer: unreachable, not ready, no active, no replica, overloaded, timeout"},
	{exitLost, "scan, watch: it cannot be gone on from the page token or the position; begin anew"},
	{exitDenied, "the credentials are not accepted, or do not allow it"},
	{exitDiffers, "verify: a replica differs from its changelog or from another one, or is damaged"},
	{exitNotServed, "import-check: not everything would be served"},
}

func exitHelp() string {
	var lines []string
	for _, c := range exitCodes {
		lines = append(lines, fmt.Sprintf("  %d  %s", c.code, c.says))
	}
	return strings.Join(lines, "\n")
}

// errNotFound ends a get of an absent key. All that is to be said has been printed.
var errNotFound = errors.New("not found")

// usageError is a wrong command line.
type usageError struct {
	err  error
	hint string // the command whose help says more
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usage(cmd *cobra.Command, err error) error {
	return &usageError{err: err, hint: cmd.CommandPath()}
}

func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), hint: "iqctl"}
}

func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errNotFound) {
		return exitNotFound
	}
	if errors.Is(err, errDiffers) {
		return exitDiffers
	}
	if errors.Is(err, errNotServed) {
		return exitNotServed
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	if reason := iqerr.ReasonOf(err); reason != iqv1.Reason_REASON_UNSPECIFIED {
		return exitCodeOf(reason)
	}
	if code := status.Code(iqerr.Status(err)); code == codes.Unavailable || code == codes.DeadlineExceeded {
		return exitUnavailable
	}
	return exitError
}

// exitCodeOf is the code for a reason that a server gave.
func exitCodeOf(reason iqv1.Reason) int {
	switch reason {
	case iqv1.Reason_REASON_INVALID:
		return exitUsage
	case iqv1.Reason_REASON_STALE, iqv1.Reason_REASON_POSITION_NOT_REACHED:
		return exitStale
	case iqv1.Reason_REASON_NOT_READY, iqv1.Reason_REASON_NOT_HOSTED, iqv1.Reason_REASON_NO_ACTIVE, iqv1.Reason_REASON_NO_REPLICA,
		iqv1.Reason_REASON_OVERLOADED, iqv1.Reason_REASON_CLOSING, iqv1.Reason_REASON_CORRUPT, iqv1.Reason_REASON_SLOW_READER:
		return exitUnavailable
	case iqv1.Reason_REASON_PAGE_LOST:
		return exitLost
	case iqv1.Reason_REASON_UNAUTHENTICATED, iqv1.Reason_REASON_PERMISSION_DENIED:
		return exitDenied
	case iqv1.Reason_REASON_STORE_UNKNOWN, iqv1.Reason_REASON_PARTITIONS_CHANGED, iqv1.Reason_REASON_UNSPECIFIED:
	}
	return exitError
}

// report prints an error: one line, then a line for each replica and router that had something to say.
func (a *app) report(err error) {
	if errors.Is(err, errNotFound) || errors.Is(err, errDiffers) || errors.Is(err, errNotServed) {
		return
	}
	if a.json() {
		_ = printJSON(a.errs, map[string]any{"error": errorShape(err)})
		return
	}
	var b strings.Builder
	b.WriteString("error: ")
	refusals, headline := iqerr.RefusalsOf(err)
	if refusals == nil {
		b.WriteString(oneLine(headline) + "\n")
	} else {
		fmt.Fprintf(&b, "%s: %s\n", iqerr.Name(iqerr.ReasonOf(err)), headline)
		for _, c := range refusals.Candidates {
			b.WriteString("  " + iqerr.Describe(c) + "\n")
		}
		for _, t := range refusals.Attempts {
			b.WriteString("  " + iqerr.DescribeAttempt(t) + "\n")
		}
		for _, t := range otherTargets(err) {
			b.WriteString("  " + iqerr.DescribeAttempt(t) + "\n")
		}
	}
	if u, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(&b, "see: %s --help\n", u.hint)
	}
	_, _ = a.errs.Write([]byte(b.String()))
}

// oneLine keeps an error of several joined ones on one line.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }
