package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/iqgate/iqgate/cmd/internal/build"
	"github.com/iqgate/iqgate/cmd/internal/config"
	"github.com/iqgate/iqgate/metrics"
)

// Settings are the settings of a program's admin port.
type Settings struct {
	Address   string    // --admin; empty for no port
	ReadyWhen ReadyWhen // --ready-when, of a node
}

// Declare declares what both programs have.
func (s *Settings) Declare() []config.Setting {
	return []config.Setting{
		config.Parsed("admin", "", "HOST:PORT", "", func(text string) error {
			s.Address = text
			return checkAddress(text)
		}, "where to answer operators by plain HTTP: /metrics, /healthz, /readyz, /startupz, /loglevel, /debug/pprof/; off if not given, since nothing protects it"),
	}
}

// DeclareNode declares what a node has.
func (s *Settings) DeclareNode() []config.Setting {
	words := []string{string(Joined), string(CaughtUp), string(Restored)}
	return append(s.Declare(), config.Choice("ready-when", "", "STATE", string(Joined), words, func(word string) error {
		s.ReadyWhen = ReadyWhen(word)
		return nil
	}, "when /readyz says yes: joined (it has its assignment), caught-up (and no replica is more than acceptable-lag behind) or restored (and each has caught up, and each active runs)"))
}

// Open takes the address of the port; nil when there is to be none. collector makes the program's metrics, status says whether it
// is ready, and level is that of its log.
func (s *Settings) Open(ctx context.Context, program string, collector prometheus.Collector, status func(now time.Time) Status, level *slog.LevelVar, log *slog.Logger) (*Server, error) {
	if s.Address == "" {
		return nil, nil //nolint:nilnil // no port is an answer, see Server.Run
	}
	version, revision := build.Known()
	registry, err := metrics.NewRegistry(metrics.Build{Program: program, Version: version, Revision: revision}, collector)
	if err != nil {
		return nil, err
	}
	return Listen(ctx, Config{Address: s.Address, Metrics: registry, Status: status, Level: level, Log: log})
}

const maxPort = 65535

// checkAddress says what is wrong with an address to listen at. The host may be empty, for all of the machine's.
func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return errors.New("must be host:port")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > maxPort {
		return errors.New("must be host:port with a port from 0 to 65535")
	}
	return nil
}
