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
	routerEnv      = "IQCTL_ROUTER"
	defaultRouter  = "127.0.0.1:7000"
	defaultTimeout = 5 * time.Second
)

// app is what all commands share: where to print, and the global flags.
type app struct {
	out, errs io.Writer
	getenv    func(string) string
	terminal  func() (*screen, error) // takes the terminal over; nil where there is none
	dial      []grpc.DialOption       // tests lead the client to servers in memory

	routers string
	output  string
	timeout time.Duration
	links   links
}

// run executes one command line and gives the exit code.
func run(ctx context.Context, args []string, a *app) int {
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
` + exitHelp,
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
	f := root.PersistentFlags()
	f.StringVar(&a.routers, "router", "", "routers or nodes to ask, host:port[,host:port...] (default $"+routerEnv+" or "+defaultRouter+")")
	f.StringVarP(&a.output, "output", "o", "table", "how to print: table, json, or, where values are read, raw: their bytes alone")
	f.DurationVar(&a.timeout, "timeout", defaultTimeout, "how long a command may take, on top of --wait; scan, count, watch and drain take what they need unless it is given")
	a.links.flags(root)
	root.AddCommand(newGetCommand(a))
	root.AddCommand(newMultiGetCommand(a), newScanCommand(a), newCountCommand(a), newWatchCommand(a))
	root.AddCommand(newWindowCommand(a), newSessionCommand(a), newAsOfCommand(a), newVersionsCommand(a))
	root.AddCommand(newExplainCommand(a))
	root.AddCommand(newDrainCommand(a), newVerifyCommand(a))
	root.AddCommand(newStatusCommand(a))
	root.AddCommand(newLagCommand(a), newTopCommand(a))
	root.AddCommand(newMetadataCommand(a))
	root.AddCommand(newImportCheckCommand(a))
	root.AddCommand(newDemoCommand())
	return root
}

// checkFlags checks the global flags that every command heeds.
func (a *app) checkFlags(cmd *cobra.Command) error {
	switch raw := cmd.Annotations[rawAnnotation] != ""; {
	case a.output == "table" || a.output == "json" || raw && a.raw():
	case raw:
		return usagef("--output %q: must be table, json or raw", a.output)
	default:
		return usagef("--output %q: must be table or json", a.output)
	}
	if a.timeout <= 0 {
		return usagef("--timeout %s: must be positive", a.timeout)
	}
	return nil
}

// targets are the routers to ask: of the flag, else of the environment, else the default.
func (a *app) targets() ([]string, error) {
	var targets []string
	name, list := "--router", a.routers
	if list == "" {
		name, list = routerEnv, a.getenv(routerEnv)
	}
	if list == "" {
		list = defaultRouter
	}
	for target := range strings.SplitSeq(list, ",") {
		target = strings.TrimSpace(target)
		if err := checkTarget(target); err != nil {
			return nil, usagef("%s %q: %w", name, target, err)
		}
		targets = append(targets, target)
	}
	return targets, nil
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
func (a *app) connectStream(ctx context.Context, cmd *cobra.Command) (_ context.Context, _ *client.Client, done func(), _ error) {
	if cmd.Flags().Changed("timeout") {
		return a.connect(ctx, 0)
	}
	c, err := a.client()
	if err != nil {
		return nil, nil, nil, err
	}
	return ctx, c, func() { _ = c.Close() }, nil
}

func (a *app) client() (*client.Client, error) {
	targets, err := a.targets()
	if err != nil {
		return nil, err
	}
	return a.clientOf(targets)
}

// clientOf is a client of servers by their addresses.
func (a *app) clientOf(targets []string) (*client.Client, error) {
	secured, err := a.links.options(a.getenv)
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
