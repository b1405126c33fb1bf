// Command iqrouter is the front of an application: it learns from its nodes' heartbeats who holds what and how far behind,
// and sends each read to the best copy within the staleness that the caller asks for. "iqrouter --help" lists the
// settings; this file is the life of the process.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/cmd/internal/admin"
	"github.com/iqgate/iqgate/cmd/internal/memory"
	"github.com/iqgate/iqgate/metrics"
	"github.com/iqgate/iqgate/router"
)

// Exit codes. Whoever starts routers depends on them: add, never change.
const (
	exitOK        = 0 // stopped in order, as asked
	exitError     = 1 // cannot go on
	exitBadConfig = 2 // the configuration is wrong; starting again does not help
)

func main() {
	// A first signal means an orderly stop, a second one the end.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop()
	}()
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is the life of the process: args are the arguments without the program's name, env is the environment as
// os.Environ gives it. It ends when ctx does and returns the exit code.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	// 1. Settings: flags over environment over file. All faults at once.
	s, loaded, err := load(args, env)
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "iqrouter: %v\nsee: iqrouter --help\n", err)
		return exitBadConfig
	case loaded.Answer != "":
		_, _ = io.WriteString(stdout, loaded.Answer)
		return exitOK
	}
	log := s.log.Logger(stderr)
	for _, name := range loaded.Strangers {
		log.Warn("an environment variable is no setting", slog.String("variable", name))
	}
	memory.Tune(env, log)
	cfg := s.router
	cfg.Logger = log
	if cfg.Security, err = s.links.Load(log); err != nil {
		_, _ = fmt.Fprintf(stderr, "iqrouter: bad configuration: %v\nsee: iqrouter --help\n", err)
		return exitBadConfig
	}

	// 2. The router. It starts nothing yet.
	r, err := router.New(cfg)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "iqrouter: %v\nsee: iqrouter --help\n", err)
		return exitBadConfig
	}

	front, err := newFront(s.http, r, cfg)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "iqrouter: bad configuration: %v\nsee: iqrouter --help\n", err)
		return exitBadConfig
	}

	port, err := s.admin.Open(ctx, "iqrouter", metrics.NewRouter(r.Tally, r.View), func(now time.Time) admin.Status {
		t := r.Tally(now)
		return admin.RouterStatus(&t)
	}, &s.log.Level, log)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "iqrouter: %v\n", err)
		return exitError
	}

	// 3. Listen, say where, and serve until the signal: nodes report, callers read. Then let reads finish and end; those of the
	// HTTP side first, since the router answers them.
	g, ctx := errgroup.WithContext(ctx)
	reads, endRouter := context.WithCancel(context.WithoutCancel(ctx))
	defer endRouter()
	watched, endAdmin := context.WithCancel(context.WithoutCancel(ctx))
	defer endAdmin()
	g.Go(func() error { return port.Run(watched) })
	g.Go(func() error {
		defer endAdmin() // operators see it end
		return r.Run(reads)
	})
	g.Go(func() error {
		defer endRouter()
		return front.run(ctx, stdout)
	})
	g.Go(func() error {
		address, err := r.Address(ctx)
		if err != nil {
			return nil //nolint:nilerr // it ended before it listened; Run says why
		}
		_, err = fmt.Fprintf(stdout, "iqrouter listening at %s\n", address)
		return err
	})
	if err := g.Wait(); err != nil {
		log.Error("cannot go on", slog.Any("error", err))
		return exitError
	}
	log.Info("stopped")
	return exitOK
}
