package auth

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/credentials/jwt"

	"github.com/iqgate/iqgate/certs"
	"github.com/iqgate/iqgate/reload"
)

// Bounds of what a caller may make a server hold before it is known.
const (
	// MaxHeaderBytes bounds the headers of a call: a token and the names of a caller find room in it.
	MaxHeaderBytes = 64 << 10
	// HandshakeTimeout bounds the time from a connection to the end of its handshakes.
	HandshakeTimeout = 10 * time.Second
)

// Security is how a node or a router protects its links: as a server, and as a client of others. A nil Security is plaintext,
// and everybody may do everything.
type Security struct {
	// Identity has the certificates. Required.
	Identity *certs.Identity
	// Guard lets calls in. nil: whoever connects may do everything.
	Guard *Guard
	// RequireCertificate ends the handshake of whoever shows no certificate that is trusted. With a Guard it is not needed, and
	// shuts those out who have a token alone.
	RequireCertificate bool
	// TokenFile has the bearer token that is shown to others; it is read again before the token expires. Empty: none.
	TokenFile string
	// CheckInterval is the time between two looks at the files. Default reload.DefaultInterval.
	CheckInterval time.Duration
}

// Validate says what is wrong.
func (s *Security) Validate() error {
	if s == nil {
		return nil
	}
	if s.Identity == nil {
		return errors.New("auth: Identity is required")
	}
	var errs []error
	if s.CheckInterval < 0 {
		errs = append(errs, errors.New("auth: CheckInterval must not be negative"))
	}
	_, err := s.Identity.Server(s.RequireCertificate)
	return errors.Join(append(errs, err)...)
}

// ServerOptions are those of a gRPC server. They hold for plaintext too: its callers are bounded alike.
func (s *Security) ServerOptions() []grpc.ServerOption {
	opts := []grpc.ServerOption{grpc.MaxHeaderListSize(MaxHeaderBytes), grpc.ConnectionTimeout(HandshakeTimeout)}
	if s == nil {
		return opts
	}
	c, err := s.Identity.Server(s.RequireCertificate)
	if err != nil {
		panic(err) // Validate was not called
	}
	opts = append(opts, grpc.Creds(&accepted{credentials.NewTLS(c)}))
	if s.Guard != nil {
		opts = append(opts, grpc.ChainUnaryInterceptor(s.Guard.unary), grpc.ChainStreamInterceptor(s.Guard.stream))
	}
	return opts
}

// DialOptions are those of a gRPC client of a router or a node. Calls under a context of a call that the Guard let in tell
// for whom they are made.
func (s *Security) DialOptions() []grpc.DialOption {
	if s == nil {
		return []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(s.Identity.Credentials()),
		grpc.WithChainUnaryInterceptor(forwardUnary), grpc.WithChainStreamInterceptor(forwardStream),
	}
	if s.TokenFile != "" {
		if token, err := jwt.NewTokenFileCallCredentials(s.TokenFile); err == nil { // it fails for an empty name alone
			opts = append(opts, grpc.WithPerRPCCredentials(token))
		}
	}
	return opts
}

// Run keeps certificates, rules and keys with their files until ctx ends.
func (s *Security) Run(ctx context.Context, log *slog.Logger) error {
	if s == nil {
		return nil
	}
	values := []reload.Checker{s.Identity}
	if s.Guard != nil {
		values = append(values, s.Guard)
	}
	return reload.Follow(ctx, s.CheckInterval, log, values...)
}

// accepted are a server's credentials whose connections remember who was found to be behind them.
type accepted struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (a *accepted) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := a.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	tlsInfo, ok := info.(credentials.TLSInfo)
	if !ok {
		return nil, nil, errors.Join(errors.New("auth: no TLS connection"), conn.Close())
	}
	return conn, &connection{TLSInfo: tlsInfo}, nil
}

// Clone implements credentials.TransportCredentials.
func (a *accepted) Clone() credentials.TransportCredentials {
	return &accepted{a.TransportCredentials.Clone()}
}
