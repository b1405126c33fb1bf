package avail

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// NewChaosCommand makes the command chaos: scenario mixed of avail for a time.
func NewChaosCommand() *cobra.Command {
	o := Options{Scenario: scenarioMixed, Rounds: 1, BrokerAway: awayStop, Hedge: true}
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Have everything go wrong, one fault after another, and check that nothing is lost and no read lies",
		Long: `chaos starts a real Kafka, nodes and routers as processes of its own, as avail does, feeds and reads them, and plays one fault
after another, each until all is well again. A seed chooses the faults and the victims: each fault comes as often as it weighs
before any comes again.

` + faultHelp() + `
As root each node has a network namespace of its own, and node-1 has its state on a file system of 256 MB; what cannot be played
is named in the report. In the end every count is compared with what was acknowledged, the replicas with one another and with
their changelogs, and the report lists each fault with the reads of its round. What the columns mean, and which promises
are checked, is told by iqbench avail --help. The exit code is 1 when one was broken.`,
		Example: "  iqbench chaos --for 1h\n  iqbench chaos --for 3m --seed 17 --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &OptionError{fmt.Errorf("argument %q is one too many", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				o.Seed = rand.Uint64N(1 << 32) //nolint:gosec // chooses faults, guards nothing
			}
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "seed %d\n", o.Seed)
			return Run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.For, "for", 3*time.Minute, "how long faults begin; the last one ends in its own time")
	f.Uint64Var(&o.Seed, "seed", 0, "chooses faults and victims (default: a random one, which is printed)")
	f.StringVar(&o.Kafka, "kafka", kafkaReal, "real (one started from Maven; needs Java 17 and Maven), or embedded, without the faults that need a real one")
	f.IntVar(&o.Records, "records", 1000, "input records a second")
	f.IntVar(&o.Reads, "reads", 500, "reads a second, of all policies together")
	f.IntVar(&o.Nodes, "nodes", 3, "nodes")
	f.IntVar(&o.Partitions, "partitions", 4, "partitions of the input, hence of the stores")
	f.IntVar(&o.Standbys, "standbys", 1, "standbys of each partition")
	f.DurationVar(&o.Away, "away", 0, "how long a fault lasts (default: each its own)")
	f.StringVar(&o.Bin, "bin", "", "folder of iqnode and iqrouter (default: beside iqbench, else they are built)")
	f.BoolVar(&o.Keep, "keep", false, "keep logs and stores, and say where")
	f.BoolVar(&o.JSON, "json", false, "print the result as one object in the last line")
	return cmd
}

func faultHelp() string {
	var b strings.Builder
	for _, f := range faults() {
		fmt.Fprintf(&b, "  %-20s %s\n", f.name, f.help)
	}
	return b.String()
}
