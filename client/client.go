package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Bounds and defaults of a client.
const (
	// MaxTargets is the most targets that a client takes, and so the most attempts of one call.
	MaxTargets = 64
	// MaxMessageBytes bounds a request and a reply, so the largest value that can be read.
	MaxMessageBytes = 64 << 20
	// DefaultTimeout bounds a call whose context has no deadline, on top of its Wait.
	DefaultTimeout = 10 * time.Second
	// DefaultAttemptTimeout bounds what one target may take before the next is asked, on top of the call's Wait.
	DefaultAttemptTimeout = 2 * time.Second

	windowBytes       = 1 << 20          // a smaller window throttles many calls on one connection
	keepaliveTime     = 10 * time.Second // servers must permit this: gRPC's own default ends connections that ping so often
	keepaliveTimeout  = 5 * time.Second
	minConnectTimeout = 2 * time.Second
	firstBackoff      = 100 * time.Millisecond
	maxBackoff        = 2 * time.Second // a router that is back is noticed within this
)

// Client asks routers or nodes. Make one with New and share it.
type Client struct {
	targets []*target
	opts    options
	// first is the index of the target to ask first: the one that answered last.
	first atomic.Int64
	// direct is nil without WithDirect.
	direct  *direct
	sources sources
}

// target is one router or node.
type target struct {
	name     string
	query    iqv1.QueryServiceClient
	metadata iqv1.MetadataServiceClient
	control  iqv1.ControlServiceClient
	verify   iqv1.VerifyServiceClient
	close    func() error
	// lookups is nil without WithLookups.
	lookups *lookups
}

// New makes a client of targets, each "host:port" or a gRPC target such as "dns:///routers:7000". It connects to nothing
// yet, so a target that is down is no error here. Close the client when done.
func New(targets []string, opts ...Option) (*Client, error) {
	if len(targets) == 0 {
		return nil, iqerr.Invalid("targets", nil, "at least one router or node is required")
	}
	if len(targets) > MaxTargets {
		return nil, iqerr.Invalid("targets", len(targets), "at most 64 are allowed")
	}
	c := &Client{opts: options{timeout: DefaultTimeout, attemptTimeout: DefaultAttemptTimeout}}
	for _, o := range opts {
		o(&c.opts)
	}
	if err := c.opts.validate(); err != nil {
		return nil, err
	}
	dial := append(dialOptions(), c.opts.dial...)
	for _, name := range targets {
		conn, err := dialTarget(name, dial)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		t := newTarget(name, conn, conn.Close)
		if c.opts.lookups {
			t.lookups = newLookups(conn, name)
			t.close = t.lookups.closer(conn.Close)
		}
		c.targets = append(c.targets, t)
	}
	if !c.opts.inOrder {
		c.first.Store(rand.Int64N(int64(len(targets)))) //nolint:gosec // spreads clients over routers, guards nothing
	}
	if c.opts.direct {
		c.direct = newDirect(&c.opts, c.targets, int(c.first.Load()))
	}
	return c, nil
}

func dialTarget(name string, dial []grpc.DialOption) (*grpc.ClientConn, error) {
	if name == "" {
		return nil, iqerr.Invalid("targets", name, "must be host:port")
	}
	conn, err := grpc.NewClient(name, dial...)
	if err != nil {
		return nil, iqerr.Invalid("targets", name, err.Error())
	}
	return conn, nil
}

func newTarget(name string, conn grpc.ClientConnInterface, closeConn func() error) *target {
	return &target{
		name:     name,
		query:    iqv1.NewQueryServiceClient(conn),
		metadata: iqv1.NewMetadataServiceClient(conn),
		control:  iqv1.NewControlServiceClient(conn),
		verify:   iqv1.NewVerifyServiceClient(conn),
		close:    closeConn,
	}
}

func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent("iqgate-client"),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithInitialWindowSize(windowBytes),
		grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		// A peer that vanished without a word is noticed by pings; the kernel alone takes a quarter of an hour.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstBackoff, Multiplier: 2, Jitter: 0.2, MaxDelay: maxBackoff},
			MinConnectTimeout: minConnectTimeout,
		}),
	}
}

// Close closes all connections. Calls in flight fail.
func (c *Client) Close() error {
	var errs []error
	if c.direct != nil {
		errs = append(errs, c.direct.close())
	}
	for _, t := range c.targets {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}

// Get looks one key of a store up; key is as the store's key serde writes it. Without read options the client's
// (WithReadOptions) count, and without those the server's default policy. A window store needs InWindow, a session store
// InSession; a versioned one takes AsOf.
func (c *Client) Get(ctx context.Context, store string, key []byte, opts ...ReadOption) (Result, error) {
	return c.getIn(ctx, nil, store, key, opts)
}

func (c *Client) getIn(ctx context.Context, s *Session, store string, key []byte, opts []ReadOption) (Result, error) {
	r, err := c.read(callGet, s, store, key, opts)
	if err != nil {
		return Result{}, err
	}
	if s != nil {
		if err := s.begin(ctx, r); err != nil {
			return Result{}, err
		}
	}
	res, err := c.get(ctx, r)
	if s != nil && err == nil {
		s.saw(store, res.InputPosition)
	}
	return res, err
}

func (c *Client) get(ctx context.Context, r *read) (Result, error) {
	if c.direct != nil {
		return c.getDirect(ctx, r)
	}
	res, attempts, err := ask(ctx, c, (*target).get, &r.get, r.wait())
	if err != nil {
		return Result{}, err
	}
	return resultOf(res, attempts), nil
}

// getDirect asks the nodes, and on a detour the targets with what is left of the time.
func (c *Client) getDirect(ctx context.Context, r *read) (Result, error) {
	ctx, cancel := c.bound(ctx, r.wait())
	defer cancel()
	a := c.direct.get(ctx, r)
	switch {
	case a.err != nil:
		return Result{}, a.err
	case a.response != nil:
		res := resultOf(a.response, a.attempts)
		res.Way = WayDirect
		return res, nil
	}
	response, attempts, err := ask(ctx, c, (*target).get, &r.get, r.wait())
	if err != nil {
		if failed, ok := errors.AsType[*CallError](err); ok {
			failed.Attempts = append(a.attempts, failed.Attempts...)
		}
		return Result{}, err
	}
	res := resultOf(response, append(a.attempts, attempts...))
	res.Detour = a.detour
	return res, nil
}

func (t *target) get(ctx context.Context, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	if t.lookups != nil {
		return t.lookups.get(ctx, req)
	}
	return t.query.Get(ctx, req)
}
