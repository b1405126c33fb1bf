package main

import (
	"errors"
	"time"

	"github.com/iqgate/iqgate/cmd/internal/admin"
	"github.com/iqgate/iqgate/cmd/internal/config"
	"github.com/iqgate/iqgate/cmd/internal/memory"
	"github.com/iqgate/iqgate/cmd/internal/secure"
	"github.com/iqgate/iqgate/gateway"
	"github.com/iqgate/iqgate/mux"
	"github.com/iqgate/iqgate/router"
	"github.com/iqgate/iqgate/routing"
)

// settings are the program's settings after loading.
type settings struct {
	router router.Config
	links  secure.Files
	http   string // where the HTTP side listens; empty for none
	admin  admin.Settings
	log    config.Log
}

const about = `iqrouter sends each read of an application's state to the best copy within the staleness that the caller asks for.

usage: iqrouter [flags]
`

const after = `
exit codes: 0 stopped as asked, 1 an error, 2 bad configuration
signals: SIGTERM and SIGINT stop in order, a second one at once
memory: ` + memory.Help + `
`

// load takes the settings from the arguments and the environment, see config.Program.Load.
func load(args, env []string) (*settings, *config.Loaded, error) {
	s := &settings{}
	loaded, err := s.program().Load(args, env)
	return s, loaded, err
}

// program declares every setting.
func (s *settings) program() *config.Program {
	return &config.Program{
		Name: "iqrouter", About: about, After: after,
		Groups: []config.Group{
			{Title: "The router", Settings: s.routerSettings()},
			{Title: "Nodes", Settings: s.nodeSettings()},
			{Title: "Reads", Settings: s.readSettings()},
			{Title: "TLS, and who may do what", Settings: s.links.Settings()},
			{Title: "The admin port", Settings: s.admin.Declare()},
			{Title: "Log", Settings: s.log.Settings("")},
		},
		Check: func() error { return errors.Join(s.links.Check(), s.router.Validate()) },
	}
}

func (s *settings) routerSettings() []config.Setting {
	c := &s.router
	return []config.Setting{
		config.Text("listen", "Listen", "HOST:PORT", "127.0.0.1:7000", &c.Listen, "where to listen; port 0 takes a free one"),
		config.Parsed("http", "", "HOST:PORT", "", func(text string) error {
			s.http = text
			return gateway.CheckListen(text)
		}, "where the HTTP side listens: reads and metadata as JSON, and the dashboard; off if not given"),
		config.Text("name", "Name", "NAME", "", &c.Name, "the router's name, as nodes hear it, if not where it listens"),
		config.Duration("stop-timeout", "StopTimeout", &c.StopTimeout, "5s", 0, 0, "how long reads may take to finish after SIGTERM"),
	}
}

func (s *settings) nodeSettings() []config.Setting {
	c := &s.router
	return []config.Setting{
		config.Duration("suspect-after", "SuspectAfter", &c.SuspectAfter, "400ms", 50*time.Millisecond, 0, "how long a node may be silent before reads go elsewhere").
			Must("at most node-timeout"),
		config.Duration("node-timeout", "NodeTimeout", &c.NodeTimeout, "2s", 0, 0, "how long a node may be silent before it counts as dead"),
		config.Duration("sample-max-age", "SampleMaxAge", &c.SampleMaxAge, "5s", 0, 0, "how old a sample of a changelog's end may be to judge an offset lag by"),
		config.Number("max-watchers", "MaxWatchers", &c.MaxWatchers, "256", 1, 0, "streams of metadata open at a time; more are refused"),
	}
}

func (s *settings) readSettings() []config.Setting {
	c := &s.router
	return []config.Setting{
		config.Parsed("default-policy", "DefaultPolicy", "POLICY", "active", func(text string) (err error) {
			c.DefaultPolicy, err = routing.ParsePolicy(text)
			return err
		}, "for reads that name none: strong, active, any, max_staleness=5s, max_offset_lag=1000, prefer=least_loaded, joined by commas"),
		config.Duration("request-timeout", "RequestTimeout", &c.RequestTimeout, "10s", 0, 0, "deadline of reads that come without one"),
		config.Duration("try-timeout", "TryTimeout", &c.TryTimeout, "1s", 0, 0, "the most that one replica gets while others are left to ask"),
		config.Switch("hedge", "Hedge", &c.Hedge, "ask a second replica when the first is slow and the read tolerates staleness"),
		config.Number("max-in-flight", "MaxInFlight", &c.MaxInFlight, "20000", 1, 0, "reads at a time; more are refused"),
		config.Number("max-waiters", "MaxWaiters", &c.MaxWaiters, "2000", 1, 0, "reads held at a time because they asked to wait"),
		config.Number("max-scans", "MaxScans", &c.MaxScans, "1000", 1, 0, "scans at a time; more are refused"),
		config.Number("max-watches", "MaxWatches", &c.MaxWatches, "1000", 1, 0, "watches of state open at a time; more are refused"),
		config.Duration("scan-idle", "ScanIdle", &c.ScanIdle, "30s", 0, 0, "how long the reader of a scan or watch may take nothing before its stream ends"),
		config.Size("max-message-bytes", "MaxMessageBytes", &c.MaxMessageBytes, "64MiB", mux.MinMessageBytes, "bound of one message"),
	}
}
