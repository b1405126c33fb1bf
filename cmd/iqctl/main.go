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
	code := run(ctx, os.Args[1:], &app{out: os.Stdout, errs: os.Stderr, getenv: os.Getenv})
	stop()
	os.Exit(code)
}
