package main

import (
	"errors"
	"slices"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// The shapes of -o json are those of package shape, whose rules hold for those that are iqctl's alone too. Scripts depend on
// the names: add, never change.

type errorJSON struct {
	Reason     string            `json:"reason,omitempty"`
	Message    string            `json:"message"`
	ExitCode   int               `json:"exit_code"`
	Candidates []shape.Candidate `json:"candidates,omitempty"`
	Attempts   []shape.Attempt   `json:"attempts,omitempty"`
}

func errorShape(err error) errorJSON {
	refusals, headline := iqerr.RefusalsOf(err)
	e := errorJSON{Message: oneLine(headline), ExitCode: exitCode(err)}
	if reason := iqerr.ReasonOf(err); reason != iqv1.Reason_REASON_UNSPECIFIED {
		e.Reason = iqerr.Name(reason)
	}
	if refusals != nil {
		e.Candidates, e.Attempts = shape.CandidatesOf(refusals.Candidates), shape.AttemptsOf(refusals.Attempts)
	}
	e.Attempts = append(e.Attempts, shape.AttemptsOf(otherTargets(err))...)
	return e
}

// otherTargets are the routers that were asked besides the one whose error err is.
func otherTargets(err error) []*iqv1.Attempt {
	call, ok := errors.AsType[*client.CallError](err)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(call.Attempts), func(t *iqv1.Attempt) bool { return t.GetAddress() == call.Target })
}
