package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/cmd/internal/embedded"
	"github.com/iqgate/iqgate/cmd/internal/iqnode"
	"github.com/iqgate/iqgate/router"
)

// NewCommand makes the command demo; flightsGz is the packed file of flights.
func NewCommand(flightsGz []byte) *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a small cluster on real flights, read it all the while, kill a node",
		Long: `demo needs nothing installed. It starts an embedded Kafka, nodes and a router as processes of its own on the loopback
interface, feeds the 27,004 flights that left New York in January 2013, and keeps three stores: flights by destination,
minutes of delay by carrier, and the latest flight of each aircraft. All the while it reads with several policies. It kills
a node at a third of the time and starts it again at two thirds. In the end it reads every key and compares it with a
plain pass over the file.

With --json the last line is one object. Its times are -1 where what they time has not happened.`,
		Example: `  iqctl demo
  iqctl demo --duration 1m --nodes 5 --standbys 2
  iqctl demo --kafka real --json
  iqctl demo --keep`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return Run(cmd.Context(), o, flightsGz, cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.DurationVar(&o.Duration, "duration", 30*time.Second, "how long to feed and read")
	f.StringVar(&o.Kill, "kill", killNode, "what to kill at a third of the time: node or none")
	f.Float64Var(&o.Rate, "rate", 0, "flights to feed a second (default: so many that it takes 65% of the duration)")
	f.IntVar(&o.Nodes, "nodes", 3, "nodes")
	f.IntVar(&o.Standbys, "standbys", 1, "standbys of each store partition")
	f.StringVar(&o.Kafka, "kafka", kafkaEmbedded, "embedded, real (one started from Maven; needs Java 17 and Maven), or a bootstrap address, host:port")
	f.StringVar(&o.StateDir, "state-dir", "", "empty directory for stores and logs, kept at the end (default: a temporary one)")
	f.BoolVar(&o.Keep, "keep", false, "leave it running in the end, until Ctrl-C")
	f.BoolVar(&o.JSON, "json", false, "print the result as one object in the last line")
	cmd.AddCommand(nodeCommand(), routerCommand(), brokerCommand())
	return cmd
}

// nodeCommand is iqnode as a process of this executable.
func nodeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "node", Short: "Be an iqnode", Hidden: true, DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			signal.Reset(syscall.SIGINT, syscall.SIGTERM) // iqnode has its own way with them
			os.Exit(iqnode.Main(args, os.Environ(), os.Stdout, os.Stderr))
		},
	}
}

// routerCommand is a router with everything at its default, on a free port.
func routerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "router", Short: "Be a router", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRouter(cmd.Context(), cmd.OutOrStdout()) },
	}
}

func runRouter(ctx context.Context, out io.Writer) error {
	r, err := router.New(router.Config{Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.Run(ctx) })
	g.Go(func() error {
		address, err := r.Address(ctx)
		if err == nil {
			_, err = fmt.Fprintf(out, "iqrouter%s%s\n", listening, address)
		}
		return err
	})
	return g.Wait()
}

// brokerCommand is the embedded Kafka: kfake in a process of its own, because strange requests to its port end it.
func brokerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "broker", Short: "Be the embedded Kafka", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return embedded.Run(cmd.Context(), cmd.OutOrStdout()) },
	}
}
