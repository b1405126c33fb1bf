package main

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
)

func newLagCommand(a *app) *cobra.Command {
	var store string
	cmd := &cobra.Command{
		Use:   "lag",
		Short: "Show every replica and how far behind it is",
		Long: `lag shows every replica and how far behind it is: in changelog offsets, and in time as an upper bound on the age of
what it would answer. SAMPLE is how old the measurement of the changelog's end is. A node tells of its own replicas, a
router of all.

POSITION is the next changelog offset to apply, END the changelog's end. An active's POSITION is that of its last commit,
mostly one below END: the commit's marker. It is not behind for that. A replica that is suspended has a task that stopped, and
its node's log says why.`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.lag(cmd.Context(), store) },
	}
	cmd.Flags().StringVar(&store, "store", "", "only this store")
	return cmd
}

func (a *app) lag(ctx context.Context, store string) error {
	ctx, c, done, err := a.connect(ctx, 0)
	if err != nil {
		return err
	}
	defer done()
	replicas, err := c.Lags(ctx, store)
	if err != nil {
		return err
	}
	slices.SortStableFunc(replicas, shape.ByPartition)
	if a.json() {
		return printJSON(a.out, map[string]any{"replicas": shape.ReplicasOf(replicas)})
	}
	p := &printer{w: a.out}
	if len(replicas) == 0 {
		p.line("no replicas")
		return p.err
	}
	var rows [][]string
	for _, r := range replicas {
		rows = append(rows, []string{
			r.GetStore(), strconv.Itoa(int(r.GetPartition())), r.GetNode(), iqerr.RoleName(r.GetRole()), iqerr.StateName(r.GetState()),
			strconv.FormatInt(r.GetPosition(), 10), strconv.FormatInt(r.GetEndPosition(), 10), offsetLag(r), timeLag(r), duration(r.GetSampleAge()),
		})
	}
	p.table([]string{"STORE", "PARTITION", "NODE", "ROLE", "STATE", "POSITION", "END", "OFFSET LAG", "TIME LAG", "SAMPLE"}, rows)
	return p.err
}
