package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
)

func newMultiGetCommand(a *app) *cobra.Command {
	var (
		r    readFlags
		asOf string
	)
	cmd := &cobra.Command{
		Use:   "mget STORE KEY...",
		Short: "Read the values of many keys at once",
		Long: `mget reads the values of up to 10,000 keys at once, those of one partition at one position. A key that could not be
read has its error in its place; then the exit code is that of the first such error. If all could be read and one is not
there, it is 3.

-o json prints an object a line, for each key in the order given. -o raw prints each value's bytes and a line feed, of the keys
that are there.`,
		Example: `  iqctl mget by-dest ATL ORD BOS --policy max_staleness=10s
  iqctl mget orders -o json -- -17 18`,
		Args: func(cmd *cobra.Command, args []string) error {
			return exactArgs("STORE", "KEY")(cmd, args[:min(len(args), 2)])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.multiGet(cmd.Context(), cmd, &r, asOf, args[0], args[1:])
		},
	}
	r.addPolicy(cmd)
	r.addKeyFormat(cmd)
	r.addValueFormat(cmd)
	r.addHex(cmd)
	cmd.Flags().StringVar(&asOf, "as-of", "", "the versions of a versioned store that were valid at this time")
	return takesRaw(cmd)
}

func (a *app) multiGet(ctx context.Context, cmd *cobra.Command, r *readFlags, asOf, store string, texts []string) error {
	opts, err := r.options(cmd)
	if err != nil {
		return err
	}
	if asOf != "" {
		at, err := shape.ParseTime(asOf, time.Now())
		if err != nil {
			return usage(cmd, fmt.Errorf("--as-of %q: %w", asOf, err))
		}
		opts = append(opts, client.AsOf(at))
	}
	ctx, c, done, err := a.connect(ctx, r.wait)
	if err != nil {
		return err
	}
	defer done()
	f, err := r.formats(ctx, c, store)
	if err != nil {
		return err
	}
	keys := make([][]byte, len(texts))
	for i, text := range texts {
		if keys[i], err = f.key.Parse(text); err != nil {
			return usage(cmd, fmt.Errorf("KEY %q: %w", text, err))
		}
	}
	results, err := c.MultiGet(ctx, store, keys, opts...)
	if err != nil {
		return err
	}
	if err := a.printKeys(f, texts, results); err != nil {
		return err
	}
	for _, res := range results {
		if res.Err != nil {
			return res.Err
		}
		if !res.Found {
			err = errNotFound
		}
	}
	return err
}

// keyResultJSON is one key of an mget.
type keyResultJSON struct {
	Key         string      `json:"key"`
	Found       bool        `json:"found"`
	Value       any         `json:"value"`
	ValueFormat string      `json:"value_format,omitempty"`
	Timestamp   *int64      `json:"timestamp_ms"`
	ValidUntil  *int64      `json:"valid_until_ms,omitempty"`
	Read        *shape.Read `json:"read"`
	Error       *errorJSON  `json:"error,omitempty"`
}

func (a *app) printKeys(f formats, texts []string, results []client.KeyResult) error {
	p := &printer{w: a.out}
	var rows [][]string
	for i, res := range results {
		switch {
		case a.json():
			if err := printLine(a.out, keyResultShape(f, texts[i], res)); err != nil {
				return err
			}
		case a.raw() && res.Found:
			p.write(string(res.Value) + "\n")
		case a.raw():
		default:
			rows = append(rows, keyCells(f, texts[i], res))
		}
	}
	if rows != nil {
		p.table([]string{"KEY", "VALUE", "TIMESTAMP", "PARTITION", "NODE", "LAG"}, rows)
	}
	return p.err
}

func keyCells(f formats, text string, res client.KeyResult) []string {
	if res.Err != nil {
		return []string{text, "error: " + oneLine(res.Err.Error()), "", "", "", ""}
	}
	value := "(not found)"
	if res.Found {
		value, _ = f.text(res.Value)
	}
	served := res.Read.GetServed()
	return []string{
		text, value, timeText(res.Timestamp), strconv.Itoa(int(res.Read.GetPartition())), served.GetNode(), iqerr.Lag(served),
	}
}

func keyResultShape(f formats, text string, res client.KeyResult) keyResultJSON {
	s := keyResultJSON{Key: text, Found: res.Found, Timestamp: timeMs(res.Timestamp), ValidUntil: timeMs(res.ValidUntil)}
	if res.Err != nil {
		s.Error = new(errorShape(res.Err))
		s.Error.Message = oneLine(res.Err.Error()) // the server's own words
		return s
	}
	if res.Found {
		s.Value, s.ValueFormat = f.value.JSON(res.Value)
	}
	s.Read = new(shape.ReadOf(res.Read))
	return s
}
