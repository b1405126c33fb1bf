package compare

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/bench/bare"
	"github.com/iqgate/iqgate/cmd/internal/embedded"
)

// NewCommand makes the command compare.
func NewCommand() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Compare iqgate with Kafka Streams and with bare gRPC, side by side",
		Long: `compare starts a Kafka, the product's nodes and routers, an application of Kafka Streams with interactive queries over
gRPC, and servers that only answer or pass on gRPC, each as a process of its own, and measures them one after another, round
by round in alternating order. One load generator asks both sides with the same bytes.

A row of the result has the median of ours and of theirs over the rounds, their ratio, what is wanted, and whether it was
reached. Absolute figures move from run to run with the machine; ratios of one run are what counts. What the product does not
have yet is told as missing, and is not ok.

--quick takes 300,000 records in place of 2,000,000, seconds in place of tens of them, two rounds in place of three, and no
measure of what is compared with nothing else (scan, multiget, overload), unless --rounds and --only say otherwise: under five
minutes, and rougher ratios. With --json the last line is one object; progress is on standard error. The exit code is 0 when
everything was measured, whether or not all that is wanted was reached.

Kafka Streams needs a JDK of 17 or newer (the newest one is taken) and Maven.`,
		Example: `  iqbench compare --quick --json
  iqbench compare --only get,echo --rounds 5
  iqbench compare --report bench/results/today.md`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &OptionError{fmt.Errorf("argument %q is one too many", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Quick && !cmd.Flags().Changed("rounds") {
				o.Rounds = quickRounds
			}
			if o.Quick && !cmd.Flags().Changed("only") {
				o.Only = quickIDs()
			}
			return Run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Quick, "quick", false, "less input and less time")
	f.BoolVar(&o.JSON, "json", false, "print the result as one object in the last line")
	f.IntVar(&o.Rounds, "rounds", 3, "how many times each measure is taken; 2 with --quick")
	f.IntVar(&o.Records, "records", 0, "length of the input (default 2,000,000, with --quick 300,000)")
	f.StringSliceVar(&o.Only, "only", nil, "measures to take: "+strings.Join(measureIDs(), ", "))
	f.StringVar(&o.Kafka, "kafka", kafkaReal, "real (one started from Maven), or embedded, which Kafka Streams cannot use")
	f.StringVar(&o.Report, "report", "", "Markdown file to write, with a plot of the same name beside it")
	f.IntVar(&o.Nice, "nice", 0, "priority of all processes of the run; below 0 takes root")
	f.StringVar(&o.Bin, "bin", "", "folder of iqnode and iqrouter (default: beside iqbench, else they are built)")
	f.BoolVar(&o.Keep, "keep", false, "keep logs and stores, and say where")
	cmd.AddCommand(brokerCommand(), echoCommand(), proxyCommand())
	return cmd
}

// brokerCommand is the embedded Kafka as a process of this executable.
func brokerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "broker", Short: "Be the embedded Kafka", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return embedded.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
}

// echoCommand is the bare server as a process of this executable.
func echoCommand() *cobra.Command {
	return &cobra.Command{
		Use: "echo ADDRESS REPLY", Short: "Answer every lookup with a reply in hexadecimal", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			reply, err := hex.DecodeString(args[1])
			if err != nil {
				return fmt.Errorf("reply %q: %w", args[1], err)
			}
			return bare.Echo(cmd.Context(), args[0], reply)
		},
	}
}

// proxyCommand is the bare proxy as a process of this executable.
func proxyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "proxy ADDRESS TO", Short: "Pass every lookup on", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return bare.Proxy(cmd.Context(), args[0], args[1]) },
	}
}
