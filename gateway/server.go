package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Bounds that are the same for every gateway.
const (
	// headerTimeout is how long the headers of a request, and the handshake before them, may take.
	headerTimeout = 10 * time.Second
	// maxHeaderBytes bounds the headers of a request: a bearer token and the positions of a watch find room.
	maxHeaderBytes = 64 << 10
	// idleTimeout is how long a connection may be open without a request.
	idleTimeout = 2 * time.Minute
	// maxExcess is how many connections above MaxConnections are answered, with an error. Even more are closed.
	maxExcess = 64
	// excessRetry is when trying again makes sense after that.
	excessRetry = time.Second
	// maxStreams bounds the requests under way on one connection of HTTP/2.
	maxStreams = 250
)

// Gateway serves HTTP.
type Gateway struct {
	*Handler
	log  *slog.Logger
	open atomic.Int64 // connections

	address struct {
		sync.Mutex
		listening net.Addr
		known     chan struct{} // closed once listening is set
	}
}

// New makes a gateway. It starts nothing: Run does. As an http.Handler it answers without Run, too.
func New(c Config) (*Gateway, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("gateway configuration: %w", err)
	}
	c = c.withDefaults()
	g := &Gateway{log: c.Logger, Handler: &Handler{
		config: c, query: iqv1.NewQueryServiceClient(c.Calls), metadata: iqv1.NewMetadataServiceClient(c.Calls), stopping: make(chan struct{}),
	}}
	g.address.known = make(chan struct{})
	return g, nil
}

// Address is where the gateway listens. It waits until that is known or ctx ends.
func (g *Gateway) Address(ctx context.Context) (net.Addr, error) {
	select {
	case <-g.address.known:
		g.address.Lock()
		defer g.address.Unlock()
		return g.address.listening, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Run serves until ctx ends, then ends watches, lets other requests finish for StopTimeout, and returns after all has ended. It
// may be called once. A clean end is nil.
func (g *Gateway) Run(ctx context.Context) error {
	listener, err := g.listen(ctx)
	if err != nil {
		return err
	}
	var handlers sync.WaitGroup // the server does not wait for those of connections that it closes
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handlers.Add(1)
			defer handlers.Done()
			g.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnContext: g.connected, ConnState: g.changed,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }, // requests may finish
		ErrorLog:    slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),                      // callers that break off
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	stopped, ctx := errgroup.WithContext(ctx)
	stopped.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		}
		return nil
	})
	stopped.Go(func() error {
		<-ctx.Done()
		g.stop.Do(func() { close(g.stopping) })
		timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.config.StopTimeout)
		defer cancel()
		if err := server.Shutdown(timeout); err != nil {
			g.log.Warn("requests did not finish in time; ending them", slog.Duration("stop_timeout", g.config.StopTimeout))
			_ = server.Close()
		}
		return nil
	})
	err = stopped.Wait()
	handlers.Wait()
	return err
}

func (g *Gateway) listen(ctx context.Context) (net.Listener, error) {
	l := g.config.Listener
	if l == nil {
		var err error
		var lc net.ListenConfig
		if l, err = lc.Listen(ctx, "tcp", g.config.Listen); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", g.config.Listen, err)
		}
	}
	g.address.Lock()
	g.address.listening = l.Addr()
	g.address.Unlock()
	close(g.address.known)
	l = &bounded{Listener: l, gateway: g}
	if g.config.TLS != nil {
		l = tls.NewListener(l, g.config.TLS)
	}
	return l, nil
}

// bounded closes at once what is more than maxExcess above MaxConnections.
type bounded struct {
	net.Listener
	gateway *Gateway
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil || b.gateway.open.Load() < int64(b.gateway.config.MaxConnections+maxExcess) {
			return conn, err
		}
		_ = conn.Close()
	}
}

// connected notes a connection that the server has accepted.
func (g *Gateway) connected(ctx context.Context, conn net.Conn) context.Context {
	c := &connection{from: conn.RemoteAddr(), excess: g.open.Add(1) > int64(g.config.MaxConnections)}
	return context.WithValue(ctx, connectionKey{}, c)
}

// changed notes the end of a connection.
func (g *Gateway) changed(_ net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		g.open.Add(-1)
	}
}
