package bubble

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// errRefused is what dialing nobody gives, as a kernel does.
var errRefused = &net.OpError{Op: "dial", Net: "pipe", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// errEnded says that the dialer gave up, or the connection was closed, while nothing passed.
var errEnded = errors.New("ended while the network was silent")

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// A Gate is the network as one node sees it: it can be cut, frozen and slowed.
type Gate struct {
	dial  dialFunc
	state *gateState
}

type gateState struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	cut   bool
	// refused counts the dials that were refused at one moment.
	refused   int
	refusedAt time.Time
	// thaw is closed when the gate is not frozen.
	thaw  chan struct{}
	delay time.Duration
}

// NewGate returns an open gate in front of dial.
func NewGate(dial dialFunc) *Gate {
	s := &gateState{conns: make(map[net.Conn]struct{}), thaw: make(chan struct{})}
	close(s.thaw)
	return &Gate{dial: dial, state: s}
}

// NewGateFrom returns another way out through the same gate.
func NewGateFrom(g *Gate, dial dialFunc) *Gate { return &Gate{dial: dial, state: g.state} }

// DialContext connects through the gate.
func (g *Gate) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if err := g.state.pass(ctx.Done()); err != nil {
		g.state.refuse(time.Now())
		return nil, err
	}
	conn, err := g.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	gc := &gatedConn{Conn: conn, state: g.state, closed: make(chan struct{})}
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	if g.state.cut {
		_ = conn.Close()
		return nil, errRefused
	}
	g.state.conns[gc] = struct{}{}
	return gc, nil
}

// maxRefused bounds the dials that are refused at one moment. Who dials in a hot loop stops the bubble's clock, and the test
// would never end.
const maxRefused = 1000

func (s *gateState) refuse(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Equal(s.refusedAt) {
		s.refused, s.refusedAt = 0, now
	}
	if s.refused++; s.refused > maxRefused {
		panic("a node or router dials in a hot loop although it is refused")
	}
}

// Dial is DialContext for TCP.
func (g *Gate) Dial(ctx context.Context, address string) (net.Conn, error) {
	return g.DialContext(ctx, "tcp", address)
}

// Cut ends every connection and refuses new ones.
func (g *Gate) Cut() {
	s := g.state
	s.mu.Lock()
	s.cut = true
	conns := s.conns
	s.conns = make(map[net.Conn]struct{})
	thaw(s)
	s.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
}

// Mend lets connections be made again after Cut.
func (g *Gate) Mend() {
	g.state.mu.Lock()
	g.state.cut = false
	g.state.mu.Unlock()
}

// Freeze lets nothing pass, without ending a connection, until Thaw.
func (g *Gate) Freeze() {
	s := g.state
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.thaw:
		s.thaw = make(chan struct{})
	default:
	}
}

// Thaw ends Freeze.
func (g *Gate) Thaw() {
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	thaw(g.state)
}

func thaw(s *gateState) {
	select {
	case <-s.thaw:
	default:
		close(s.thaw)
	}
}

// Slow delays each write by d.
func (g *Gate) Slow(d time.Duration) {
	g.state.mu.Lock()
	g.state.delay = d
	g.state.mu.Unlock()
}

// pass waits while the gate is frozen.
func (s *gateState) pass(done <-chan struct{}) error {
	s.mu.Lock()
	ch, delay := s.thaw, s.delay
	s.mu.Unlock()
	select {
	case <-ch:
	case <-done:
		return errEnded
	}
	if delay > 0 {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-done:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return errRefused
	}
	return nil
}

type gatedConn struct {
	net.Conn
	state *gateState
	once  sync.Once
	// closed ends what waits in a frozen gate.
	closed chan struct{}
}

func (c *gatedConn) Write(b []byte) (int, error) {
	if err := c.state.pass(c.closed); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if perr := c.state.pass(c.closed); perr != nil {
		return 0, perr
	}
	return n, err
}

func (c *gatedConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.state.mu.Lock()
		delete(c.state.conns, c)
		c.state.mu.Unlock()
	})
	return c.Conn.Close()
}
