package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/mux"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/tally"
)

// permitPingEvery is how often clients and nodes may ping an idle connection to the router. Theirs is PingEvery.
const permitPingEvery = PingEvery / 2

// maxStreams bounds the calls that one connection has under way. Other bounds are the whole router's.
const maxStreams = 100_000

// Router is the front of an application. Any number of them may run; they share nothing.
type Router struct {
	config Config
	log    *slog.Logger
	board  *board
	peers  *peers
	health *health.Server

	retries, hedges *budget
	counts          *tally.Routing
	latency         latency
	journal         journal
	inFlight        atomic.Int64 // reads under way
	waiting         atomic.Int64 // of these, held by their policy's wait
	watchers        atomic.Int64 // streams of metadata
	scans           atomic.Int64 // scans under way
	watches         atomic.Int64 // watches of state
	losses          chan loss    // connections that broke, for watch
	stopping        chan struct{}

	streams struct {
		sync.Mutex
		newest map[metadata.NodeID]*heartbeats // the stream that each node opened last
		open   sync.WaitGroup                  // goroutines that receive, and those of streams of lookups
	}
	address struct {
		sync.Mutex
		listening net.Addr
		known     chan struct{} // closed once listening is set
	}
}

// New makes a router. It starts nothing: Run does.
func New(c Config) (*Router, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("router configuration: %w", err)
	}
	c = c.withDefaults()
	r := &Router{
		config: c, log: c.Logger, board: newBoard(metadata.NewView(c.limits())), health: health.NewServer(),
		retries: newBudget(retryPercent, retryBurst), hedges: newBudget(hedgePercent, hedgeBurst), counts: tally.NewRouting(),
		losses: make(chan loss, maxLosses), stopping: make(chan struct{}),
	}
	r.peers = newPeers(c, r.lose)
	r.streams.newest = map[metadata.NodeID]*heartbeats{}
	r.address.known = make(chan struct{})
	return r, nil
}

// View is the newest view, for whoever shows it.
func (r *Router) View() *metadata.View { return r.board.view() }

// RecentReads are the newest lookups of one key that were refused, failed or failed over, and samples of the others, at most one
// a second; the oldest first. The list is the caller's, but for the attempts.
func (r *Router) RecentReads() []RecentRead { return r.journal.reads() }

// Address is where the router listens. It waits until that is known or ctx ends.
func (r *Router) Address(ctx context.Context) (net.Addr, error) {
	select {
	case <-r.address.known:
		r.address.Lock()
		defer r.address.Unlock()
		return r.address.listening, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Run serves until ctx ends, then lets reads finish for StopTimeout, ends the nodes' streams, and returns after all has
// ended. It may be called once. A clean end is nil.
func (r *Router) Run(ctx context.Context) error {
	listener, err := r.listen(ctx)
	if err != nil {
		return err
	}
	server := r.newServer()
	loops, endLoops := context.WithCancel(context.WithoutCancel(ctx)) // they outlive ctx: reads that finish need them
	defer endLoops()
	r.log.Info("waiting for the first report of a node", slog.String("address", listener.Addr().String()))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		}
		return nil
	})
	g.Go(func() error { return r.watch(loops) })
	g.Go(func() error { return r.config.Security.Run(loops, r.log) })
	g.Go(func() error {
		<-ctx.Done()
		r.stop(server)
		endLoops()
		return nil
	})
	err = g.Wait()
	r.streams.open.Wait()
	r.peers.close()
	return err
}

func (r *Router) listen(ctx context.Context) (net.Listener, error) {
	l := r.config.Listener
	if l == nil {
		var err error
		var lc net.ListenConfig
		if l, err = lc.Listen(ctx, "tcp", r.config.Listen); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", r.config.Listen, err)
		}
	}
	r.address.Lock()
	r.address.listening = l.Addr()
	r.address.Unlock()
	close(r.address.known)
	return l, nil
}

func (r *Router) name() string {
	if r.config.Name != "" {
		return r.config.Name
	}
	r.address.Lock()
	defer r.address.Unlock()
	if r.address.listening == nil {
		return r.config.Listen
	}
	return r.address.listening.String()
}

func (r *Router) newServer() *grpc.Server {
	server := grpc.NewServer(append(r.config.Security.ServerOptions(),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: permitPingEvery, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: PingEvery, Timeout: PingTimeout}),
		grpc.InitialWindowSize(windowBytes),
		grpc.InitialConnWindowSize(windowBytes),
		grpc.MaxRecvMsgSize(r.config.MaxMessageBytes),
		grpc.MaxSendMsgSize(r.config.MaxMessageBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ForceServerCodecV2(mux.Codec{}),
		grpc.NumStreamWorkers(mux.MaxIdle),
		grpc.WaitForHandlers(true), // so that Stop leaves nothing running
	)...)
	r.Register(server)
	iqv1.RegisterControlServiceServer(server, &controlService{router: r})
	healthpb.RegisterHealthServer(server, r.health)
	reflection.Register(server)
	r.setHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	return server
}

// Register has a server answer reads and questions about metadata as this router does: its own server, and one within the
// process. Calls that come otherwise than by Run's listener must have ended before Run's context does.
func (r *Router) Register(s grpc.ServiceRegistrar) {
	s.RegisterService(mux.Service(r.lookup), newQueryService(r))
	iqv1.RegisterMetadataServiceServer(s, &metadataService{router: r})
}

// services are the names that health is asked for: the process's own, and that of each service that needs nodes.
var services = []string{"", iqv1.QueryService_ServiceDesc.ServiceName, iqv1.MetadataService_ServiceDesc.ServiceName}

func (r *Router) setHealth(status healthpb.HealthCheckResponse_ServingStatus) {
	for _, s := range services {
		r.health.SetServingStatus(s, status)
	}
}

// stop ends the server: unhealthy first, then no new reads, the nodes' streams and the reads held by wait at once, the
// others when they are answered, or when StopTimeout has passed.
func (r *Router) stop(server *grpc.Server) {
	r.health.Shutdown()
	close(r.stopping)
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.GracefulStop()
	}()
	timer := time.NewTimer(r.config.StopTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		r.log.Warn("reads did not finish in time; ending them", slog.Duration("stop_timeout", r.config.StopTimeout))
		server.Stop()
		<-done
	}
}
