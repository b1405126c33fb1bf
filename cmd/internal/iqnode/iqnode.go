package iqnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"

	"github.com/iqgate/iqgate/cmd/internal/build"
	"github.com/iqgate/iqgate/cmd/internal/memory"
	"github.com/iqgate/iqgate/node"
	"github.com/iqgate/iqgate/reload"
)

// Exit codes. Whoever starts nodes depends on them: add, never change.
const (
	exitOK        = 0 // stopped in order, as asked
	exitError     = 1 // cannot go on
	exitBadConfig = 2 // the configuration is wrong; starting again does not help
	exitReplaced  = 3 // another process runs with the same node id; starting again would only replace it in turn
)

// Main is the life of the process: args are the arguments without the program's name, env is the environment as
// os.Environ gives it. It returns the exit code.
func Main(args, env []string, stdout, stderr io.Writer) int {
	// 1. Settings: flags over environment over file. All faults at once.
	s, loaded, err := load(args, env)
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "iqnode: %v\nsee: iqnode --help\n", err)
		return exitBadConfig
	case loaded.Answer != "":
		_, _ = io.WriteString(stdout, loaded.Answer)
		return exitOK
	}

	// 2. Log, garbage collector, and a planned crash if a test wants one.
	log := s.log.Logger(stderr)
	cfg := s.node
	cfg.Logger, cfg.Version = log, build.Short()
	cfg.KafkaOptions = append(cfg.KafkaOptions, kgo.WithLogger(kafkaLog{kslog.New(log), &s.log.Level}))
	cfg.Step = s.crash.step
	kafkaFiles, err := s.secure(&cfg, log)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "iqnode: bad configuration: %v\nsee: iqnode --help\n", err)
		return exitBadConfig
	}
	for _, name := range loaded.Strangers {
		log.Warn("an environment variable is no setting", slog.String("variable", name))
	}
	memory.Tune(env, log)

	// 3. A first signal means an orderly stop, a second one the end: before anybody can know that the process is there.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	told := make(chan struct{})
	go func() {
		defer close(told)
		<-ctx.Done()
		stop() // the next signal has its default effect
		log.Info("stopping; a second signal ends at once")
	}()

	// 4. Listen. From here on the address is taken.
	n, err := node.New(cfg)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return exitError
	}
	port, err := s.openAdmin(ctx, n, log)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "iqnode: %v\n", err)
		return exitError
	}
	_, _ = fmt.Fprintf(stdout, "iqnode %s listening at %s\n", cfg.NodeID, n.Address())

	// 5. Work until the signal: wait for Kafka and the topics, join the group, process, serve; then commit and leave.
	following, endFollowing := context.WithCancel(context.Background())
	var followers sync.WaitGroup
	if kafkaFiles != nil {
		followers.Go(func() { _ = reload.Follow(following, 0, log, kafkaFiles) }) // it fails for a bad interval alone
	}
	followers.Go(func() {
		if err := port.Run(following); err != nil {
			log.Error("operators get no answers any more", slog.Any("error", err))
		}
	})
	err = n.Run(ctx)
	endFollowing()
	followers.Wait()
	if ctx.Err() != nil {
		<-told
	}
	switch {
	case errors.Is(err, node.ErrReplaced):
		log.Error("replaced", slog.Any("error", err))
		return exitReplaced
	case err != nil:
		log.Error("cannot go on", slog.Any("error", err))
		return exitError
	}
	log.Info("stopped")
	return exitOK
}
