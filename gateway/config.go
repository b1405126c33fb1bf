package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"
)

// Config is what a gateway is made of. The zero value of each field but Calls means its default.
type Config struct {
	// Calls answers reads and questions about metadata: the router's own services. Required.
	Calls grpc.ClientConnInterface
	// Listen is the address to listen on, as host:port; port 0 takes a free one. Required unless there is a Listener.
	Listen string
	// Listener is used instead of Listen when set. Run closes it.
	Listener net.Listener
	// TLS is the configuration of the listener. Default: plaintext.
	TLS *tls.Config
	// Rest answers what is neither under /v1/ nor /openapi.json. Default: an error that says so.
	Rest http.Handler
	// Logger is where the gateway writes. Default: slog.Default.
	Logger *slog.Logger
	// MaxConnections is how many connections may be open at once; more are told that there are too many. Default 4,096.
	MaxConnections int
	// MaxBodyBytes bounds the body of a request. Default 8 MiB: the keys of a request to mget are at most 3 MiB, and JSON
	// writes some bytes as six.
	MaxBodyBytes int64
	// StreamIdle is how long a caller may take nothing of what is sent before its connection is closed. Default 30s.
	StreamIdle time.Duration
	// KeepAlive is the time after which a watch without changes sends a comment, so that nobody in between takes it for
	// dead. Default 15s.
	KeepAlive time.Duration
	// StopTimeout is how long Run lets requests finish after its context ended. Default 5s.
	StopTimeout time.Duration
}

// Validate reports every field that makes no sense, by name and value.
func (c Config) Validate() error {
	var errs []error
	bad := func(field string, value any, want string) {
		errs = append(errs, fmt.Errorf("%s: %v must be %s", field, value, want))
	}
	if c.Calls == nil {
		bad("Calls", nil, "given")
	}
	if c.Listener == nil {
		if err := CheckListen(c.Listen); err != nil {
			errs = append(errs, fmt.Errorf("Listen: %q %w", c.Listen, err)) //nolint:staticcheck // a field's name
		}
	}
	if c.MaxConnections < 0 {
		bad("MaxConnections", c.MaxConnections, "more than 0")
	}
	if c.MaxBodyBytes < 0 {
		bad("MaxBodyBytes", c.MaxBodyBytes, "more than 0")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"StreamIdle", c.StreamIdle}, {"KeepAlive", c.KeepAlive}, {"StopTimeout", c.StopTimeout}} {
		if d.value < 0 {
			bad(d.field, d.value, "more than 0s")
		}
	}
	return errors.Join(errs...)
}

// CheckListen says what is wrong with an address to listen on.
func CheckListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("must be host:port")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return errors.New("must be host:port with a port from 0 to 65535")
	}
	return nil
}

func (c Config) withDefaults() Config {
	orDefault(&c.MaxConnections, 4_096)
	orDefault(&c.MaxBodyBytes, 8<<20)
	orDefault(&c.StreamIdle, 30*time.Second)
	orDefault(&c.KeepAlive, 15*time.Second)
	orDefault(&c.StopTimeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func orDefault[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}
