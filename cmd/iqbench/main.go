// Command iqbench measures iqgate as its users meet it: real processes, a real Kafka, faults. "iqbench help" says how.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/cmd/internal/build"
	"github.com/iqgate/iqgate/cmd/iqbench/avail"
	"github.com/iqgate/iqgate/cmd/iqbench/compare"
)

// Exit codes. Scripts depend on them: add, never change.
const (
	exitOK    = 0
	exitError = 1 // a promise was broken, or it could not be measured
	exitUsage = 2 // the command line is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, and on Linux all that it has started
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// usageError is a wrong command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func run(ctx context.Context, args []string) int {
	root := &cobra.Command{
		Use:   "iqbench",
		Short: "Measure iqgate",
		Long: `iqbench measures iqgate as its users meet it.

Exit codes:
  0  done
  1  a promise was broken, or it could not be measured
  2  the command line is wrong`,
		Version: build.Version("iqbench"), SilenceErrors: true, SilenceUsage: true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(avail.NewCommand(), avail.NewChaosCommand(), compare.NewCommand()) //nolint:contextcheck // commands take ctx from cobra, which ExecuteContext gives it
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	_, badOption := errors.AsType[*avail.OptionError](err)
	_, badCompare := errors.AsType[*compare.OptionError](err)
	_, badUsage := errors.AsType[usageError](err)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, avail.ErrBroken), errors.Is(err, compare.ErrFailed): // all that is to be said has been printed
		return exitError
	case badOption || badCompare || badUsage:
		_, _ = fmt.Fprintf(os.Stderr, "error: %v\nsee: iqbench --help\n", err)
		return exitUsage
	}
	_, _ = fmt.Fprintf(os.Stderr, "error: %v\n", err)
	return exitError
}
