package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"

	"github.com/iqgate/iqgate/auth"
	"github.com/iqgate/iqgate/metadata"
	"github.com/iqgate/iqgate/mux"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Keepalive between a router and its nodes. A node's server must permit it: MinTime below PingEvery, and pings without a
// stream; else it closes the connection with ENHANCE_YOUR_CALM (S30).
const (
	// PingEvery is how long a connection may be idle before the router asks whether the node is there.
	PingEvery = 10 * time.Second
	// PingTimeout is how long the node has for the reply.
	PingTimeout = 5 * time.Second
)

const (
	// reconnectAtMost bounds the time between two attempts to reach a node that is not there.
	reconnectAtMost = time.Second
	// windowBytes is HTTP/2's flow control window: at its default of 64 KiB one connection with many calls stands still.
	windowBytes = 1 << 20
)

// peer is the connection to one incarnation of a node at one address. A new incarnation gets a new one, because a
// connection that failed waits before its next attempt, and a node that has come back must not wait for that.
type peer struct {
	node        metadata.NodeID
	incarnation metadata.Incarnation
	address     string
	conn        *grpc.ClientConn
	query       iqv1.QueryServiceClient
	lookups     *mux.Client
	end         context.CancelCauseFunc // ends lookups' stream
	outstanding atomic.Int32            // queries that the node has not answered yet

	tries struct {
		sync.Mutex
		open map[*try]bool // those that may be given up when the node becomes suspect
	}
}

// try is one query sent to a peer.
type try struct{ cancel context.CancelCauseFunc }

// errLost is why a try was given up: its node became suspect and other replicas are left to ask.
var errLost = errors.New("its node became suspect while it was asked")

// errGone is why a node was not asked: it died, moved or was started anew since the decision.
var errGone = errors.New("it has gone since the decision")

// begin counts a query and, when others are left to ask, lets it end once the node becomes suspect. The caller calls the
// function returned when the query is over.
func (p *peer) begin(ctx context.Context, others bool) (context.Context, func()) {
	p.outstanding.Add(1)
	if !others {
		return ctx, func() { p.outstanding.Add(-1) }
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t := &try{cancel}
	p.tries.Lock()
	p.tries.open[t] = true
	p.tries.Unlock()
	return ctx, func() {
		p.tries.Lock()
		delete(p.tries.open, t)
		p.tries.Unlock()
		cancel(nil)
		p.outstanding.Add(-1)
	}
}

// giveUp ends the tries that may be ended.
func (p *peer) giveUp() {
	p.tries.Lock()
	defer p.tries.Unlock()
	for t := range p.tries.open {
		t.cancel(errLost)
	}
	p.lookups.GiveUp(errLost)
}

// close ends everything that is under way: it goes to the next replica.
func (p *peer) close() {
	p.giveUp()
	p.end(errLost)
	_ = p.conn.Close()
}

// lookup asks the node for one key, over the stream that all lookups share or else by a call. It has time until then. While
// others are left to ask, it ends once the node becomes suspect. The error is errLost when the node was lost.
func (p *peer) lookup(ctx context.Context, request []byte, until time.Time, others bool) ([]byte, error) {
	if !auth.IsForwarded(ctx) {
		p.outstanding.Add(1)
		reply, err := p.lookups.Do(ctx, mux.Ask{Request: request, Deadline: until, Yields: others})
		p.outstanding.Add(-1)
		if !errors.Is(err, mux.ErrByCall) {
			return reply, err
		}
	}
	ctx, end := p.begin(ctx, others)
	defer end()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	reply, err := mux.Invoke(ctx, p.conn, request)
	if err != nil && nodeLost(ctx, err) {
		return nil, errLost
	}
	return reply, err
}

// peers are the connections to the live nodes.
type peers struct {
	dial     func(ctx context.Context, address string) (net.Conn, error)
	maxBytes int
	security []grpc.DialOption
	// lost is told when a connection broke, or when the address refused one: then the process is gone. It may not block.
	lost func(p *peer, refused bool)

	watchers sync.WaitGroup
	mu       struct {
		sync.Mutex
		byNode map[metadata.NodeID]*peer
		closed bool
	}
}

func newPeers(c Config, lost func(p *peer, refused bool)) *peers {
	ps := &peers{dial: c.Dial, maxBytes: c.MaxMessageBytes, security: slices.Clip(c.Security.DialOptions()), lost: lost}
	ps.mu.byNode = map[metadata.NodeID]*peer{}
	return ps
}

// get finds the connection to the node as the view has it; nil while there is none.
func (ps *peers) get(n *metadata.Node) *peer {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.mu.byNode[n.ID]; p != nil && p.incarnation == n.Incarnation && p.address == n.Address {
		return p
	}
	return nil
}

// outstanding is the number of the router's own queries that a node has not answered.
func (ps *peers) outstanding(id metadata.NodeID) int32 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.mu.byNode[id]; p != nil {
		return p.outstanding.Load()
	}
	return 0
}

// follow opens and closes connections so that there is one to each live node of the view, and gives up the tries at
// suspect ones. The error joins what could not be opened.
func (ps *peers) follow(v *metadata.View) error {
	var gone []*peer
	var suspects []*peer
	var errs []error
	ps.mu.Lock()
	for id, p := range ps.mu.byNode {
		n := v.Node(id)
		switch {
		case n == nil || !n.Alive || n.Incarnation != p.incarnation || n.Address != p.address || ps.mu.closed:
			gone = append(gone, p)
			delete(ps.mu.byNode, id)
		case n.Suspect:
			suspects = append(suspects, p)
		}
	}
	for _, n := range v.Nodes() {
		if !n.Alive || ps.mu.byNode[n.ID] != nil || ps.mu.closed {
			continue
		}
		p, err := ps.open(n)
		if err != nil {
			errs = append(errs, fmt.Errorf("connect to node %s at %s: %w", n.ID, n.Address, err))
			continue
		}
		ps.mu.byNode[n.ID] = p
	}
	ps.mu.Unlock()
	for _, p := range suspects {
		p.giveUp()
	}
	for _, p := range gone {
		p.close()
	}
	return errors.Join(errs...)
}

// open makes a connection, which dials in the background. No I/O happens here.
func (ps *peers) open(n *metadata.Node) (*peer, error) {
	p := &peer{node: n.ID, incarnation: n.Incarnation, address: n.Address}
	p.tries.open = map[*try]bool{}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := ps.dial(ctx, address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			ps.lost(p, true)
		}
		return conn, err
	}
	retry := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectAtMost}
	conn, err := grpc.NewClient("passthrough:///"+n.Address, append(ps.security,
		grpc.WithContextDialer(dial),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: PingEvery, Timeout: PingTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: reconnectAtMost}),
		grpc.WithDisableRetry(), // the router retries, on another replica
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(windowBytes),
		grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(ps.maxBytes), grpc.MaxCallSendMsgSize(ps.maxBytes)),
	)...)
	if err != nil {
		return nil, err
	}
	p.conn, p.query, p.lookups = conn, iqv1.NewQueryServiceClient(conn), mux.NewClient(conn, "node "+string(n.ID))
	var ctx context.Context
	ctx, p.end = context.WithCancelCause(context.Background()) //nolint:forbidigo // ends with the connection, which follow and close close
	ps.watchers.Go(func() { p.lookups.Run(ctx) })
	ps.watchers.Go(func() { ps.watch(p) })
	return p, nil
}

// watch keeps the connection open and tells when it breaks, so that a node's death is known before the next read meets
// it. It ends when the connection is closed.
func (ps *peers) watch(p *peer) {
	ctx := context.Background() //nolint:forbidigo // ends with the connection, which follow and close close
	state := p.conn.GetState()
	for state != connectivity.Shutdown {
		if state == connectivity.Idle {
			p.conn.Connect()
		}
		p.conn.WaitForStateChange(ctx, state)
		next := p.conn.GetState()
		if state == connectivity.Ready && next != connectivity.Ready && next != connectivity.Shutdown {
			ps.lost(p, false)
		}
		state = next
	}
}

// close closes every connection and returns when nothing is left running.
func (ps *peers) close() {
	ps.mu.Lock()
	ps.mu.closed = true
	all := ps.mu.byNode
	ps.mu.byNode = map[metadata.NodeID]*peer{}
	ps.mu.Unlock()
	for _, p := range all {
		p.close()
	}
	ps.watchers.Wait()
}
