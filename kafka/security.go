package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// dialTimeout bounds a connection with its TLS handshake; it is the client library's own bound without TLS.
const dialTimeout = 10 * time.Second

// SASL mechanisms, by Kafka's names.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Mechanisms are the SASL mechanisms that a Security may have.
var Mechanisms = []string{Plain, ScramSHA256, ScramSHA512, OAuthBearer}

// Security is how clients connect to Kafka. A nil one, and the zero value, are plaintext without authentication.
type Security struct {
	// TLS gives the configuration of the next connection, so that certificates may change while the process runs. nil: no TLS.
	// A configuration without a ServerName checks for the broker's host.
	TLS func() *tls.Config
	// Mechanism is the SASL mechanism, one of Mechanisms. Empty: no SASL.
	Mechanism string
	// User is the name for PLAIN and SCRAM. For OAUTHBEARER it must be empty: the token says who it is.
	User string
	// Secret gives the password, or the token for OAUTHBEARER. It is called at each authentication, so that a secret may
	// change, and must be safe for concurrent use. Required with a Mechanism.
	Secret func() (string, error)
	// Dial connects to a broker. Default: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Validate reports every bad field at once and names it. It never calls Secret.
func (s *Security) Validate() error {
	if s == nil {
		return nil
	}
	var errs []error
	bad := func(field, value, why string) {
		errs = append(errs, fmt.Errorf("kafka: %s %q: %s", field, value, why))
	}
	switch {
	case s.Mechanism == "":
		if s.User != "" {
			bad("User", s.User, "needs a Mechanism")
		}
		return errors.Join(errs...)
	case !slices.Contains(Mechanisms, s.Mechanism):
		bad("Mechanism", s.Mechanism, "must be "+strings.Join(Mechanisms, ", "))
	case s.Mechanism == OAuthBearer && s.User != "":
		bad("User", s.User, "is not for OAUTHBEARER: the token says who it is")
	case s.Mechanism != OAuthBearer && s.User == "":
		bad("User", "", "is required for "+s.Mechanism)
	}
	if s.Secret == nil {
		errs = append(errs, errors.New("kafka: Secret is required with a Mechanism"))
	}
	return errors.Join(errs...)
}

// Exposed says whether the secret itself crosses the network for everybody there to read: SCRAM proves it without telling it.
func (s *Security) Exposed() bool {
	return s != nil && s.TLS == nil && (s.Mechanism == Plain || s.Mechanism == OAuthBearer)
}

// Options are those of each client. They come after others that set a dialer.
func (s *Security) Options() []kgo.Opt {
	if s == nil {
		return nil
	}
	var opts []kgo.Opt
	if s.TLS != nil {
		opts = append(opts, kgo.Dialer(s.dialTLS))
	} else if s.Dial != nil {
		opts = append(opts, kgo.Dialer(s.Dial))
	}
	if m := s.mechanism(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts
}

func (s *Security) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	dial := s.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	cfg := s.TLS().Clone()
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		cfg.ServerName = host
	}
	raw, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS with %s: %w", address, err), raw.Close())
	}
	return conn, nil
}

func (s *Security) mechanism() sasl.Mechanism {
	scramAuth := func(context.Context) (scram.Auth, error) {
		pass, err := s.Secret()
		return scram.Auth{User: s.User, Pass: pass}, err
	}
	switch s.Mechanism {
	case Plain:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			pass, err := s.Secret()
			return plain.Auth{User: s.User, Pass: pass}, err
		})
	case ScramSHA256:
		return scram.Sha256(scramAuth)
	case ScramSHA512:
		return scram.Sha512(scramAuth)
	case OAuthBearer:
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := s.Secret()
			return oauth.Auth{Token: token}, err
		})
	}
	return nil
}
