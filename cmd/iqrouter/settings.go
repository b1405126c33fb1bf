package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/iqgate/iqgate/cmd/internal/memory"
	"github.com/iqgate/iqgate/cmd/internal/secure"
	"github.com/iqgate/iqgate/gateway"
	"github.com/iqgate/iqgate/router"
	"github.com/iqgate/iqgate/routing"
)

// envPrefix begins the environment variables that are settings: --suspect-after is IQROUTER_SUSPECT_AFTER, and
// suspect-after in the file.
const envPrefix = "IQROUTER_"

// maxConfigBytes bounds the configuration file.
const maxConfigBytes = 1 << 20

// settings are the program's settings after loading.
type settings struct {
	router    router.Config
	links     secure.Files
	http      string // where the HTTP side listens; empty for none
	config    string
	logLevel  slog.Level
	logFormat string
	version   bool     // print it, and exit
	strangers []string // variables IQROUTER_* that are no setting
}

// flags defines every setting, with its default and help.
func (s *settings) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("iqrouter", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	c := &s.router
	fs.StringVar(&s.config, "config", "", "`file` with settings by these names, as YAML; flags and environment win over it")
	fs.StringVar(&c.Listen, "listen", "127.0.0.1:7000", "`address` to listen on, host:port; port 0 takes a free one")
	fs.Func("http", "`address` of the HTTP side, host:port: reads and metadata as JSON (default: off)", func(text string) error {
		s.http = text
		return gateway.CheckListen(text)
	})
	fs.StringVar(&c.Name, "name", "", "the router's `name`, as nodes hear it (default: where it listens)")
	fs.Func("default-policy", "`policy` of reads that name none: strong, active, any, max_staleness=5s, max_offset_lag=1000, prefer=least_loaded, joined by commas (default active)", func(text string) (err error) {
		c.DefaultPolicy, err = routing.ParsePolicy(text)
		return err
	})
	fs.DurationVar(&c.SuspectAfter, "suspect-after", 0, "how long a node may be silent before reads go elsewhere (default 400ms)")
	fs.DurationVar(&c.NodeTimeout, "node-timeout", 0, "how long a node may be silent before it counts as dead (default 2s)")
	fs.DurationVar(&c.SampleMaxAge, "sample-max-age", 0, "how old a sample of a changelog's end may be to judge an offset lag by (default 5s)")
	fs.DurationVar(&c.RequestTimeout, "request-timeout", 0, "deadline of reads that come without one (default 10s)")
	fs.DurationVar(&c.TryTimeout, "try-timeout", 0, "the most that one replica gets while others are left to ask (default 1s)")
	fs.DurationVar(&c.StopTimeout, "stop-timeout", 0, "how long reads may take to finish after SIGTERM (default 5s)")
	fs.IntVar(&c.MaxInFlight, "max-in-flight", 0, "reads at a time; more are refused (default 20000)")
	fs.IntVar(&c.MaxWaiters, "max-waiters", 0, "reads held at a time because they asked to wait (default 2000)")
	fs.IntVar(&c.MaxWatchers, "max-watchers", 0, "streams of metadata open at a time; more are refused (default 256)")
	fs.IntVar(&c.MaxScans, "max-scans", 0, "scans at a time; more are refused (default 1000)")
	fs.IntVar(&c.MaxWatches, "max-watches", 0, "watches of state open at a time; more are refused (default 1000)")
	fs.DurationVar(&c.ScanIdle, "scan-idle", 0, "how long the reader of a scan or watch may take nothing before its stream ends (default 30s)")
	fs.IntVar(&c.MaxMessageBytes, "max-message-bytes", 0, "bound of one message, at least 256 KiB (default 64 MiB)")
	fs.BoolVar(&c.Hedge, "hedge", false, "ask a second replica when the first is slow and the read tolerates staleness")
	fs.StringVar(&s.links.Cert, "tls-cert", "", "`file`: "+secure.CertHelp)
	fs.StringVar(&s.links.Key, "tls-key", "", "`file`: "+secure.KeyHelp)
	fs.StringVar(&s.links.CA, "tls-ca", "", "`file`: "+secure.CAHelp)
	fs.StringVar(&s.links.ServerName, "tls-server-name", "", "`name`: "+secure.ServerNameHelp)
	fs.BoolVar(&s.links.RequireClient, "tls-require-client", false, secure.RequireClientHelp)
	fs.StringVar(&s.links.Token, "token-file", "", "`file`: "+secure.TokenHelp)
	fs.StringVar(&s.links.Rules, "auth-rules", "", "`file`: "+secure.RulesHelp)
	fs.StringVar(&s.links.Keys, "auth-keys", "", "`file`: "+secure.KeysHelp)
	fs.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "`level`: debug, info, warn or error")
	fs.Func("log-format", "`format`: text or json (default text)", func(text string) error {
		if text != "text" && text != "json" {
			return errors.New("must be text or json")
		}
		s.logFormat = text
		return nil
	})
	return fs
}

func (s *settings) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.logLevel}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func printUsage(w io.Writer) {
	_, _ = fmt.Fprintf(w, `iqrouter sends each read of an application's state to the best copy within the staleness that the caller asks for.

usage: iqrouter [settings]

Each setting may also be an environment variable (%sLISTEN for --listen) or a line of the YAML file given as --config
(listen: host:port). Flags win over the environment, and that over the file.

`, envPrefix)
	(&settings{}).flags().VisitAll(func(f *flag.Flag) {
		value, help := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "0s" && f.DefValue != "false" {
			help += " (default " + strings.ToLower(f.DefValue) + ")"
		}
		_, _ = fmt.Fprintf(w, "  %-29s %s\n", strings.TrimSpace("--"+f.Name+" "+strings.ToUpper(value)), help)
	})
	_, _ = fmt.Fprintf(w, "  %-29s %s\n", "--version", "print the version, and exit")
	_, _ = fmt.Fprintf(w, `
exit codes: %d stopped as asked, %d an error, %d bad configuration
signals: SIGTERM and SIGINT stop in order, a second one at once
memory: %s
`, exitOK, exitError, exitBadConfig, memory.Help)
}
