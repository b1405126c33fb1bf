// Command withkafka runs a command that needs a real Kafka:
//
//	withkafka go test -tags kafka ./integration/...
//
// It fetches the broker's jars first, so that no test's time limit has to allow for that. Where Java or Maven is
// missing, or the jars cannot be had, it does not run the command, says so and what to install, and succeeds: a
// machine without Java can still run all other tests. With KAFKA_REQUIRED=1 that is a failure.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"github.com/iqgate/iqgate/integration/kafkabroker"
)

// fetchTimeout bounds the wait for the jars, another process's fetch included.
const fetchTimeout = 10 * time.Minute

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withkafka command [argument ...]")
		os.Exit(2)
	}
	if err := prepare(context.Background()); err != nil {
		os.Exit(report(err, os.Getenv("KAFKA_REQUIRED") == "1"))
	}
	os.Exit(run(os.Args[1], os.Args[2:]))
}

// prepare makes sure that a broker can start.
func prepare(ctx context.Context) error {
	if err := kafkabroker.Find(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	_, err := kafkabroker.Jars(ctx)
	return err
}

// report says why the command does not run and returns the exit code.
func report(err error, required bool) int {
	if required {
		fmt.Fprintf(os.Stderr, "FAIL: the tests against a real Kafka (layer 5) must run (KAFKA_REQUIRED=1), but:\n  %v\n", err)
		return 1
	}
	fmt.Printf("NOT RUN: the tests against a real Kafka (layer 5):\n  %v\n", err)
	return 0
}

// run runs the command and returns its exit code. Signals of the terminal reach the command by themselves; it
// decides when to end.
func run(name string, args []string) int {
	signal.Ignore(os.Interrupt)
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1) // -1 after a signal
	case err != nil:
		fmt.Fprintln(os.Stderr, "withkafka:", err)
		return 1
	}
	return 0
}
