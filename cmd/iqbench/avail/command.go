package avail

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/cmd/internal/embedded"
)

// NewCommand makes the command avail.
func NewCommand() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "avail",
		Short: "Measure how long which reads are not answered while something happens",
		Long: `avail starts a Kafka, nodes and two routers as processes of its own, feeds a steady input that is counted by key, and reads
every partition at a steady rate under several policies, while something happens again and again:

` + scenarioHelp() + `
What the figures mean:

  gap       For one partition and one policy: the time from the moment at which one read was answered to the moment at
            which the next one was, whichever of them began first; from the begin of the round to the first answer and from
            the last answer to the end of the round too. A read that was held because it asked to wait counts when it was
            answered, so holding is part of the gap, and so is the pause between two reads: a system that answers everything
            at once has a gap of that pause, which is printed. Of a round, the largest over all partitions.
  failed    Reads that began in the round and were refused, broken or not answered within 2s beyond their wait. Each read asks
            one router, once, and nothing is tried again (--no-client-retry), except where a router is the victim: there
            the client knows both and asks the other, as the product's client does.
  stall     For one partition: the longest time during which the position of the input in the replies did not move although
            acknowledged input was there. Of a round, the largest over all partitions.
  older     Reads under strong that showed less than some reply had shown before they began, and reads under active
            that showed less than such a reply under strong or active had. Must be 0.
  beyond    Reads that told of more time lag than their policy allows. Must be 0.
  untrue    Reads that told of less time lag than was true: a count that was known to be newer for longer, or, while Kafka
            was away, less than the time that it had been away (the active may add its lease). Must be 0.
  cold      Replicas that became active although at the look before, some 50ms earlier, they were not running as a standby or
            warm-up, while one on another live node was.
  exact     In the end the input stops, and the count of each key is compared with what was acknowledged.

A round goes from the moment at which all is well until all is well again: every node reports, every partition has an
active and its standbys, nothing restores, and tasks are spread again. Reads are sent on time whether or not others are
answered; how late the latest of them was is printed too, as a measure of the machine.

With --json the last line is one object; progress is on standard error. The exit code is 1 when counts are not exact, a
read that tolerates staleness failed, or one of what must be 0 is not.`,
		Example: `  iqbench avail --scenario kill --rounds 2
  iqbench avail --kafka real --scenario rolling --json
  sudo iqbench avail --kafka real --scenario vanish`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &OptionError{fmt.Errorf("argument %q is one too many", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Kafka, "kafka", kafkaEmbedded, "embedded, or real (one started from Maven; needs Java 17 and Maven)")
	f.StringVar(&o.Scenario, "scenario", "kill", "what happens: "+strings.Join(scenarioNames(), ", ")+", or all one after another")
	f.IntVar(&o.Rounds, "rounds", 10, "how many times it happens")
	f.Uint64Var(&o.Seed, "seed", 1, "chooses the victims")
	f.IntVar(&o.Records, "records", 2000, "input records a second")
	f.IntVar(&o.Reads, "reads", 500, "reads a second, of all policies together")
	f.BoolVar(&o.AtOnce, "at-once", false, "read under active and strong without a wait too, to see what is refused meanwhile")
	f.IntVar(&o.Nodes, "nodes", 3, "nodes")
	f.IntVar(&o.Partitions, "partitions", 8, "partitions of the input, hence of the store")
	f.IntVar(&o.Standbys, "standbys", 1, "standbys of each partition")
	f.BoolVar(&o.Hedge, "hedge", true, "routers ask a second copy when a read that tolerates staleness is not answered soon")
	f.BoolVar(&o.NoClientRetry, "no-client-retry", true, "each read asks one router alone, where no router is the victim")
	f.DurationVar(&o.Away, "away", 0, "how long the victim is away (default 10s; vanish 15s, router 5s, broker 20s)")
	f.StringVar(&o.BrokerAway, "broker-away", awayStop, "how the broker goes away: stop (SIGSTOP, connections hang) or kill (SIGKILL and a restart)")
	f.StringVar(&o.Bin, "bin", "", "folder of iqnode and iqrouter (default: beside iqbench, else they are built)")
	f.BoolVar(&o.Keep, "keep", false, "keep logs and stores, and say where")
	f.BoolVar(&o.JSON, "json", false, "print the result as one object in the last line")
	cmd.AddCommand(brokerCommand())
	return cmd
}

// brokerCommand is the embedded Kafka as a process of this executable.
func brokerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "broker", Short: "Be the embedded Kafka", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return embedded.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
}
