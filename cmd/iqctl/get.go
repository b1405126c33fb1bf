package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
)

func newGetCommand(a *app) *cobra.Command {
	var (
		r       readFlags
		explain bool
	)
	cmd := &cobra.Command{
		Use:   "get STORE KEY",
		Short: "Read the value of a key, with who served it and how far behind",
		Long: `get reads the value of a key, then says who served it and how far behind that replica was.

KEY is written in the store's key format and the value shown in its value format. A key that begins with a dash goes
after "--". A key that the store does not have gives exit code 3, a policy that no replica meets 4. -o raw prints the value's
bytes and nothing else.`,
		Example: `  iqctl get by-dest ATL
  iqctl get by-dest ATL --policy max_staleness=10s,max_offset_lag=100 --prefer least_loaded
  iqctl get orders -- -17`,
		Args: exactArgs("STORE", "KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var opts []client.ReadOption
			if explain {
				opts = append(opts, client.Explain())
			}
			return a.get(cmd.Context(), cmd, &r, opts, args[0], args[1])
		},
	}
	r.add(cmd)
	r.addValueFormat(cmd)
	r.addHex(cmd)
	cmd.Flags().BoolVar(&explain, "explain", false, "show why each replica was chosen or refused")
	return takesRaw(cmd)
}

func (a *app) get(ctx context.Context, cmd *cobra.Command, r *readFlags, more []client.ReadOption, store, keyText string) error {
	opts, err := r.options(cmd)
	if err != nil {
		return err
	}
	opts = append(opts, more...)
	ctx, c, done, err := a.connect(ctx, r.wait)
	if err != nil {
		return err
	}
	defer done()
	start := time.Now()
	f, err := r.formats(ctx, c, store)
	if err != nil {
		return err
	}
	key, err := f.parseKey(keyText)
	if err != nil {
		return err
	}
	if r.wait > 0 { // what is left of it
		opts = append(opts, client.Wait(max(0, r.wait-time.Since(start))))
	}
	res, err := c.Get(ctx, store, key, opts...)
	if err != nil {
		return err
	}
	switch {
	case a.json():
		err = printJSON(a.out, getShape(store, keyText, f, res))
	case a.raw():
		_, err = a.out.Write(res.Value)
	default:
		err = a.printGet(f, res)
	}
	if err == nil && !res.Found {
		err = errNotFound
	}
	return err
}

func (a *app) printGet(f formats, res client.Result) error {
	text, note := "not found", ""
	if res.Found {
		text, note = f.text(res.Value)
	}
	p := &printer{w: a.out}
	p.line(text)
	if !res.ValidUntil.IsZero() {
		p.line("valid from " + timeText(res.Timestamp) + " until " + timeText(res.ValidUntil))
	}
	p.line(res.ServedBy())
	if note != "" {
		p.line("note: " + note)
	}
	for _, t := range res.Attempts {
		p.line("before that " + iqerr.DescribeAttempt(t))
	}
	if res.Decision != nil {
		p.line("")
		p.candidates(res.Decision)
	}
	return p.err
}

type getJSON struct {
	Store         string            `json:"store"`
	Key           string            `json:"key"`
	Found         bool              `json:"found"`
	Value         any               `json:"value"`
	ValueFormat   string            `json:"value_format"`
	Timestamp     string            `json:"timestamp,omitempty"`
	ValidUntil    *int64            `json:"valid_until_ms,omitempty"`
	Served        *shape.Replica    `json:"served"`
	InputPosition []shape.Offset    `json:"input_position"`
	Attempts      []shape.Attempt   `json:"attempts"`
	Candidates    []shape.Candidate `json:"candidates,omitempty"`
}

func getShape(store, key string, f formats, res client.Result) getJSON {
	s := getJSON{
		Store: store, Key: key, Found: res.Found, ValueFormat: f.value.Name(), Served: shape.ReplicaOf(res.Served),
		InputPosition: shape.PositionOf(res.InputPosition), Attempts: shape.AttemptsOf(res.Attempts),
		Candidates: shape.CandidatesOf(res.Decision.GetCandidates()),
	}
	if res.Found {
		s.Value, s.ValueFormat = f.value.JSON(res.Value)
		s.ValidUntil = timeMs(res.ValidUntil)
		s.Timestamp = res.Timestamp.UTC().Format(time.RFC3339Nano)
	}
	return s
}
