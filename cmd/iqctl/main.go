// Command iqctl reads state through iqgate and shows who hosts what and how far behind.
//
// "iqctl help" says how; its exit codes are in exit.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	a := &app{out: os.Stdout, errs: os.Stderr, getenv: os.Getenv}
	if isTerminal(os.Stdin, a.getenv) && isTerminal(os.Stdout, a.getenv) {
		a.terminal = func() (*screen, error) { return openScreen(os.Stdin, os.Stdout) }
	}
	a.progress = isTerminal(os.Stderr, a.getenv)
	code := run(ctx, os.Args[1:], a)
	stop()
	os.Exit(code)
}
