package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/mux"
	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/routing"
)

// Config is what a router is made of. The zero value of each field means its default.
type Config struct {
	// Name tells nodes which router speaks. Default: the listening address.
	Name string
	// Listen is the address to listen on, as host:port; port 0 takes a free one. Default 127.0.0.1:7000.
	Listen string
	// Listener is used instead of Listen when set. Run closes it.
	Listener net.Listener
	// Dial connects to a node's advertised address. Default: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Logger is where the router writes. Default: slog.Default.
	Logger *slog.Logger
	// DefaultPolicy is for reads that name none. Default: the active. See routing.ParsePolicy.
	DefaultPolicy routing.Policy
	// Partitioners knows the partitioners that stores name. Default: those of package partitioner.
	Partitioners *partitioner.Registry
	// SuspectAfter is how long a node may be silent before reads go elsewhere. Default 400ms; at least 50ms, and at most
	// NodeTimeout.
	SuspectAfter time.Duration
	// NodeTimeout is how long a node may be silent before it counts as dead. Default 2s.
	NodeTimeout time.Duration
	// SampleMaxAge is how old a node's sample of a changelog's end may be for an offset lag to be judged by it. Default
	// 5s.
	SampleMaxAge time.Duration
	// RequestTimeout is the deadline of reads that come without one, counted from the end of their wait. Default 10s.
	RequestTimeout time.Duration
	// TryTimeout is the most that one replica gets while others are left to ask; a read that has less time gives each
	// its share. Default 1s.
	TryTimeout time.Duration
	// MaxInFlight is how many reads may be under way at once; more are refused as OVERLOADED. Default 20,000.
	MaxInFlight int
	// MaxWaiters is how many reads may be held by their policy's wait at once. Default 2,000.
	MaxWaiters int
	// MaxWatchers is how many streams of metadata may be open at once; more are refused as OVERLOADED. Default 256.
	MaxWatchers int
	// MaxScans is how many scans may be under way at once; more are refused as OVERLOADED. A scan holds, for each partition
	// that it reads at once, two messages of at most query.MaxBatchBytes, or one row that is larger. Default 1,000.
	MaxScans int
	// MaxWatches is how many watches of state may be open at once; more are refused as OVERLOADED. Default 1,000.
	MaxWatches int
	// ScanIdle is how long the caller of a scan or watch may take nothing of what is sent before the stream ends as
	// SLOW_READER, so that nobody holds a node's snapshot by not reading. Default 30s.
	ScanIdle time.Duration
	// MaxMessageBytes bounds one message in either direction, at least mux.MinMessageBytes. Default 64 MiB.
	MaxMessageBytes int
	// Hedge asks a second replica when the first is slow to answer a read that tolerates staleness. Default off.
	Hedge bool
	// Security is TLS, and who may do what, on the links of clients and nodes. Default: plaintext, and everybody may do
	// everything.
	Security *auth.Security
	// StopTimeout is how long Run lets reads finish after its context ended. Default 5s.
	StopTimeout time.Duration
}

// minSuspectAfter keeps a router from suspecting a node for one late heartbeat.
const minSuspectAfter = 50 * time.Millisecond

// Validate reports every field that makes no sense, by name and value.
func (c Config) Validate() error {
	d := c.withDefaults()
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v must be %s", field, value, want))
	}
	if d.Listener == nil {
		_, port, err := net.SplitHostPort(d.Listen)
		if _, rangeErr := strconv.ParseUint(port, 10, 16); err != nil {
			bad("Listen", strconv.Quote(d.Listen), "host:port")
		} else if rangeErr != nil {
			bad("Listen", strconv.Quote(d.Listen), "host:port with a port from 0 to 65535")
		}
	}
	positive := func(field string, v time.Duration) {
		if v < 0 {
			bad(field, v, "more than 0s")
		}
	}
	positive("SuspectAfter", c.SuspectAfter)
	positive("NodeTimeout", c.NodeTimeout)
	positive("SampleMaxAge", c.SampleMaxAge)
	positive("RequestTimeout", c.RequestTimeout)
	positive("TryTimeout", c.TryTimeout)
	positive("StopTimeout", c.StopTimeout)
	positive("ScanIdle", c.ScanIdle)
	if c.SuspectAfter > 0 && c.SuspectAfter < minSuspectAfter {
		bad("SuspectAfter", c.SuspectAfter, "at least "+minSuspectAfter.String())
	}
	if d.SuspectAfter > d.NodeTimeout {
		bad("SuspectAfter", d.SuspectAfter, "at most NodeTimeout, which is "+d.NodeTimeout.String())
	}
	count := func(field string, v int) {
		if v < 0 {
			bad(field, v, "more than 0")
		}
	}
	count("MaxInFlight", c.MaxInFlight)
	count("MaxWaiters", c.MaxWaiters)
	count("MaxWatchers", c.MaxWatchers)
	count("MaxScans", c.MaxScans)
	count("MaxWatches", c.MaxWatches)
	if d.MaxMessageBytes < mux.MinMessageBytes {
		bad("MaxMessageBytes", c.MaxMessageBytes, fmt.Sprintf("at least %d", mux.MinMessageBytes))
	}
	if err := c.Security.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Security: %w", err)) //nolint:staticcheck // a field's name
	}
	if err := d.DefaultPolicy.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("DefaultPolicy: %w", err))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	orDefault(&c.Listen, "127.0.0.1:7000")
	orDefault(&c.SuspectAfter, 400*time.Millisecond)
	orDefault(&c.NodeTimeout, 2*time.Second)
	orDefault(&c.SampleMaxAge, routing.DefaultSampleMaxAge)
	orDefault(&c.RequestTimeout, 10*time.Second)
	orDefault(&c.TryTimeout, time.Second)
	orDefault(&c.MaxInFlight, 20_000)
	orDefault(&c.MaxWaiters, 2_000)
	orDefault(&c.MaxWatchers, 256)
	orDefault(&c.MaxScans, 1_000)
	orDefault(&c.MaxWatches, 1_000)
	orDefault(&c.ScanIdle, 30*time.Second)
	orDefault(&c.MaxMessageBytes, 64<<20)
	orDefault(&c.StopTimeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Dial == nil {
		dialer := &net.Dialer{}
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	if c.DefaultPolicy.Mode == 0 {
		prefer := c.DefaultPolicy.Prefer
		c.DefaultPolicy = routing.Unbounded(routing.ModeActive)
		c.DefaultPolicy.Prefer = prefer
	}
	return c
}

func orDefault[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

func (c Config) limits() metadata.Limits {
	return metadata.Limits{SuspectAfter: c.SuspectAfter, NodeTimeout: c.NodeTimeout}
}
