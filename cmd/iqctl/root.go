package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/cmd/internal/build"
)

const (
	routerEnv     = "IQCTL_ROUTER"
	defaultRouter = "127.0.0.1:7000"
)

// app is what all commands share: where to print, and the settings.
type app struct {
	out, errs io.Writer
	getenv    func(string) string
	terminal  func() (*screen, error) // takes the terminal over; nil where there is none
	progress  bool                    // errs is a terminal, on which long work shows how far it is
	dial      []grpc.DialOption       // tests lead the client to servers in memory

	settings
}

// run executes one command line and gives the exit code.
func run(ctx context.Context, args []string, a *app) int {
	a.declare()
	root := newRootCommand(a) //nolint:contextcheck // commands take ctx from cobra, which ExecuteContext gives it
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		a.report(err)
	}
	return exitCode(err)
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:     "iqctl",
		Version: build.Version("iqctl"),
		Short:   "Read state through iqgate, and see who hosts it and how far behind",
		Long: `iqctl asks an iqgate router, or a node: both answer alike, a node for what it hosts.

Exit codes:
` + exitHelp() + `

Each flag about whom to ask, TLS and Kafka may be an environment variable too, IQCTL_TLS_CA for --tls-ca; see "iqctl config print".`,
		Example: `  iqctl get by-dest ATL --policy max_staleness=10s
  iqctl scan by-dest --prefix A --limit 10
  iqctl explain by-dest ATL --policy strong
  iqctl --router router-1:7000,router-2:7000 status`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              noCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.checkFlags(cmd) },
	}
	root.SetOut(a.out)
	root.SetErr(a.errs)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, err) })
	a.flags(root.PersistentFlags(), groupCommon)
	a.flags(root.PersistentFlags(), groupLinks)
	root.AddCommand(newGetCommand(a))
	root.AddCommand(newMultiGetCommand(a), newScanCommand(a), newCountCommand(a), newWatchCommand(a))
	root.AddCommand(newWindowCommand(a), newSessionCommand(a), newAsOfCommand(a), newVersionsCommand(a))
	root.AddCommand(newExplainCommand(a))
	root.AddCommand(newDrainCommand(a), newVerifyCommand(a))
	root.AddCommand(newStatusCommand(a))
	root.AddCommand(newLagCommand(a), newTopCommand(a))
	root.AddCommand(newMetadataCommand(a))
	root.AddCommand(newImportCheckCommand(a))
	root.AddCommand(newDemoCommand(), newConfigCommand(a))
	a.complete(root)
	return root
}

// checkFlags takes the settings, and checks those that not every command heeds alike.
func (a *app) checkFlags(cmd *cobra.Command) error {
	if err := a.load(cmd); err != nil {
		return err
	}
	switch raw := cmd.Annotations[rawAnnotation] != ""; {
	case a.output == "table" || a.output == "json" || raw && a.raw():
	case raw:
		return usagef("--output %q: must be table, json or raw", a.output)
	default:
		return usagef("--output %q: must be table or json", a.output)
	}
	return nil
}

// checkTarget accepts host:port, and what has a scheme as gRPC does.
func checkTarget(target string) error {
	if strings.Contains(target, ":///") {
		return nil
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil || host == "" {
		return fmt.Errorf("must be host:port, such as %s", defaultRouter)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("the port must be a number from 1 to 65535")
	}
	return nil
}

func (a *app) json() bool { return a.output == "json" }

// connect gives a client and a context that ends after --timeout and the wait. done frees both.
func (a *app) connect(ctx context.Context, wait time.Duration) (_ context.Context, _ *client.Client, done func(), _ error) {
	c, err := a.client()
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout+wait)
	return ctx, c, func() { cancel(); _ = c.Close() }, nil
}

// connectStream gives a client and a context that ends after --timeout only where that was given.
func (a *app) connectStream(ctx context.Context) (_ context.Context, _ *client.Client, done func(), _ error) {
	if a.timeoutGiven {
		return a.connect(ctx, 0)
	}
	c, err := a.client()
	if err != nil {
		return nil, nil, nil, err
	}
	return ctx, c, func() { _ = c.Close() }, nil
}

func (a *app) client() (*client.Client, error) {
	return a.clientOf(a.routers)
}

// clientOf is a client of servers by their addresses.
func (a *app) clientOf(targets []string) (*client.Client, error) {
	secured, err := a.links.options()
	if err != nil {
		return nil, err
	}
	return client.New(targets, append(secured, client.WithTargetsInOrder(), client.WithDialOptions(a.dial...))...)
}

// exactArgs is cobra.ExactArgs with an error that names what is missing.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage(cmd, fmt.Errorf("%s is missing", names[len(args)]))
		case len(args) > len(names):
			return usage(cmd, fmt.Errorf("argument %q is one too many", args[len(names)]))
		}
		return nil
	}
}

// noCommand refuses the arguments of a command that only groups others: the first is no command's name.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	err := fmt.Errorf("command %q is not known", args[0])
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		err = fmt.Errorf("%w; did you mean %q?", err, similar[0])
	}
	return usage(cmd, err)
}
