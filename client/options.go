package client

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/jwt"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/partitioner"
)

// Option sets something of a client.
type Option func(*options)

type options struct {
	dial           []grpc.DialOption
	timeout        time.Duration
	attemptTimeout time.Duration
	inOrder        bool
	application    string
	read           []ReadOption
	direct         bool
	lookups        bool
	partitioners   *partitioner.Registry
	errs           []error // of options that cannot be
}

func (o *options) validate() error {
	errs := o.errs
	if o.timeout <= 0 {
		errs = append(errs, iqerr.Invalid("timeout", o.timeout, "must be positive"))
	}
	if o.attemptTimeout <= 0 {
		errs = append(errs, iqerr.Invalid("attempt timeout", o.attemptTimeout, "must be positive"))
	}
	return errors.Join(errs...)
}

// WithTimeout bounds calls whose context has no deadline, on top of their Wait. Default DefaultTimeout.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithAttemptTimeout bounds what one target may take before the next one is asked, on top of the call's Wait. The last
// target has all the time that is left. Default DefaultAttemptTimeout.
func WithAttemptTimeout(d time.Duration) Option { return func(o *options) { o.attemptTimeout = d } }

// WithTargetsInOrder asks the first target first. Default: each client begins with a random one, so that many clients
// with the same list spread over the routers.
func WithTargetsInOrder() Option { return func(o *options) { o.inOrder = true } }

// WithApplication names the application to read, where a router serves several.
func WithApplication(name string) Option { return func(o *options) { o.application = name } }

// WithReadOptions are the read options of every call that reads; one that is not for a call is passed over there. A call that gives a policy of its own (Strong, Active,
// Any, MaxStaleness, MaxOffsetLag) replaces the policy given here and keeps the rest.
func WithReadOptions(opts ...ReadOption) Option {
	return func(o *options) { o.read = append(o.read, opts...) }
}

// WithTLS connects to routers and nodes by TLS: config says which authorities sign their certificates (RootCAs) and which
// certificate the client shows (Certificates or GetClientCertificate). Default: plaintext. Package certs makes credentials
// that follow their files; they go into WithDialOptions(grpc.WithTransportCredentials(identity.Credentials())).
func WithTLS(config *tls.Config) Option {
	return WithDialOptions(grpc.WithTransportCredentials(credentials.NewTLS(config)))
}

// WithToken shows a bearer token with each call. token is called for each and gives the newest one; it must be safe for
// concurrent use. It needs TLS: without, New fails, since a token is for nobody else to read.
func WithToken(token func(ctx context.Context) (string, error)) Option {
	return WithDialOptions(grpc.WithPerRPCCredentials(bearer(token)))
}

// WithTokenFile is WithToken with a file that has the token, a JWT with an expiry. It is read again before the token expires.
func WithTokenFile(path string) Option {
	return func(o *options) {
		token, err := jwt.NewTokenFileCallCredentials(path)
		if err != nil { // for an empty path alone
			o.errs = append(o.errs, iqerr.Invalid("token file", path, "must be a file's name"))
			return
		}
		o.dial = append(o.dial, grpc.WithPerRPCCredentials(token))
	}
}

// bearer is a token as gRPC's credentials.
type bearer func(ctx context.Context) (string, error)

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return true }

// WithDialOptions adds gRPC dial options, for credentials, interceptors or another dialer. They come last and win.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, opts...) }
}

// WithDirect makes Get ask the nodes themselves: the client follows the metadata of one of its targets, which are routers,
// chooses the replica as that router would, and saves the hop. What it cannot decide or get answered goes through a router;
// Result.Way and Result.Detour say so. The client must be able to reach the nodes at their advertised addresses; WithDialOptions
// count for them too.
func WithDirect() Option { return func(o *options) { o.direct = true } }

// WithLookups sends the reads of Get over one stream to each target, and to each node in direct mode, which all goroutines share:
// where many read at once, a read costs a fraction of a call. Answers, errors, deadlines and the way from target to target are
// those of calls. Until the stream stands, at a server that does not know it, and for keys and values of more than 64 KiB, reads go
// by calls, and so do those whose context carries outgoing metadata. Interceptors and credentials see the stream as one call.
func WithLookups() Option { return func(o *options) { o.lookups = true } }

// WithPartitioners gives the application's own partitioners, for WithDirect: the same that its nodes have. Reads of a store
// whose partitioner is not among them go through a router. Default: those of package partitioner.
func WithPartitioners(r *partitioner.Registry) Option {
	return func(o *options) { o.partitioners = r }
}
