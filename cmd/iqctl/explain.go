package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func newExplainCommand(a *app) *cobra.Command {
	var r readFlags
	cmd := &cobra.Command{
		Use:   "explain STORE KEY",
		Short: "Say which replicas a read would ask, in order, and why each was chosen or refused",
		Long: `explain says which replicas a get with the same flags would ask, in order, and why each was chosen or refused.
Nothing is read. A read that nobody may answer is explained as well, and that is exit code 0. With --wait, explain
asks again while the answer is NOT_READY, and for nothing else.`,
		Example: "  iqctl explain by-dest ATL --policy max_offset_lag=50",
		Args:    exactArgs("STORE", "KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.explain(cmd.Context(), cmd, &r, args[0], args[1])
		},
	}
	r.add(cmd)
	return cmd
}

func (a *app) explain(ctx context.Context, cmd *cobra.Command, r *readFlags, store, keyText string) error {
	opts, err := r.options(cmd)
	if err != nil {
		return err
	}
	ctx, c, done, err := a.connect(ctx, r.wait)
	if err != nil {
		return err
	}
	defer done()
	start := time.Now()
	key, err := r.key(ctx, c, store, keyText)
	if err != nil {
		return err
	}
	var res *iqv1.ExplainResponse
	err = whileNotReady(ctx, r.wait-time.Since(start), func() (iqv1.Reason, error) {
		res, err = c.Explain(ctx, store, key, opts...)
		return res.GetReason(), err
	})
	if err != nil {
		return err
	}
	if a.json() {
		return printJSON(a.out, explainShape(store, keyText, r.policyText(), res))
	}
	p := &printer{w: a.out}
	p.line(fmt.Sprintf("%s/%d, key %s, policy %s", store, res.GetDecision().GetPartition(), keyText, r.policyText()))
	p.candidates(res.GetDecision())
	if res.GetReason() != iqv1.Reason_REASON_UNSPECIFIED || res.GetError() != "" {
		p.line("refused: " + iqerr.Name(res.GetReason()) + ": " + oneLine(res.GetError()))
	}
	return p.err
}

func (r *readFlags) policyText() string {
	if len(r.policy) == 0 {
		return "of the server"
	}
	return strings.Join(r.policy, ",")
}

type explainJSON struct {
	Store      string            `json:"store"`
	Partition  int32             `json:"partition"`
	Key        string            `json:"key"`
	Policy     string            `json:"policy"`
	Candidates []shape.Candidate `json:"candidates"`
	Reason     string            `json:"reason,omitempty"`
	Error      string            `json:"error,omitempty"`
}

func explainShape(store, key, policy string, res *iqv1.ExplainResponse) explainJSON {
	e := explainJSON{
		Store: store, Partition: res.GetDecision().GetPartition(), Key: key, Policy: policy,
		Candidates: shape.CandidatesOf(res.GetDecision().GetCandidates()), Error: res.GetError(),
	}
	if res.GetReason() != iqv1.Reason_REASON_UNSPECIFIED {
		e.Reason = iqerr.Name(res.GetReason())
	}
	return e
}
