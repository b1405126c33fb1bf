package bubble

import (
	"context"
	"errors"
	"math/rand/v2"
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

// A Gate is the network as one node sees it: it can be cut, reset, frozen in one direction or both, and slowed.
type Gate struct {
	dial  dialFunc
	state *gateState
}

// A direction is the way that bytes take through a gate, as seen by who dials.
type direction int

const (
	out direction = iota // what the dialer writes
	in                   // what it reads
	directions
)

type gateState struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	cut   bool
	// refused counts the dials that were refused at one moment.
	refused   int
	refusedAt time.Time
	// thaw is closed when the gate is not frozen in that direction.
	thaw   [directions]chan struct{}
	delay  time.Duration
	spread time.Duration // on top of delay, at random
	rand   *rand.Rand    // where spread is not 0
}

// NewGate returns an open gate in front of dial.
func NewGate(dial dialFunc) *Gate {
	s := &gateState{conns: make(map[net.Conn]struct{})}
	for d := range s.thaw {
		s.thaw[d] = make(chan struct{})
		close(s.thaw[d])
	}
	return &Gate{dial: dial, state: s}
}

// NewGateFrom returns another way out through the same gate.
func NewGateFrom(g *Gate, dial dialFunc) *Gate { return &Gate{dial: dial, state: g.state} }

// DialContext connects through the gate.
func (g *Gate) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	err := g.state.pass(out, ctx.Done())
	if err == nil {
		err = g.state.hold(in, ctx.Done()) // the answer to the first packet
	}
	if err != nil {
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
	for d := range s.thaw {
		thaw(s, direction(d))
	}
	s.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
}

// Reset ends every connection and lets new ones be made, as a box in between does that has forgotten them.
func (g *Gate) Reset() {
	g.state.mu.Lock()
	conns := g.state.conns
	g.state.conns = make(map[net.Conn]struct{})
	g.state.mu.Unlock()
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
	g.freeze(out)
	g.freeze(in)
}

// FreezeOut lets nothing pass that the dialers of connections write, until Thaw: requests do not arrive.
func (g *Gate) FreezeOut() { g.freeze(out) }

// FreezeIn lets nothing pass to the dialers of connections, until Thaw: requests arrive and are not answered.
func (g *Gate) FreezeIn() { g.freeze(in) }

func (g *Gate) freeze(d direction) {
	s := g.state
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.thaw[d]:
		s.thaw[d] = make(chan struct{})
	default:
	}
}

// Thaw ends Freeze, FreezeOut and FreezeIn.
func (g *Gate) Thaw() {
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	for d := range g.state.thaw {
		thaw(g.state, direction(d))
	}
}

func thaw(s *gateState, d direction) {
	select {
	case <-s.thaw[d]:
	default:
		close(s.thaw[d])
	}
}

// Slow delays each write and each read by d.
func (g *Gate) Slow(d time.Duration) { g.Jitter(d, 0, 0) }

// Jitter delays each write and each read by d and up to spread more, as seed has it. What one connection carries stays in
// order; one connection overtakes another.
func (g *Gate) Jitter(d, spread time.Duration, seed uint64) {
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	g.state.delay, g.state.spread, g.state.rand = d, spread, nil
	if spread > 0 {
		g.state.rand = rand.New(rand.NewPCG(seed, 0))
	}
}

// hold waits while the gate is frozen in a direction.
func (s *gateState) hold(d direction, done <-chan struct{}) error {
	s.mu.Lock()
	ch := s.thaw[d]
	s.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-done:
		return errEnded
	}
}

// pass waits while the gate is frozen in a direction, and for its delay.
func (s *gateState) pass(d direction, done <-chan struct{}) error {
	if err := s.hold(d, done); err != nil {
		return err
	}
	s.mu.Lock()
	delay := s.delay
	if s.spread > 0 {
		delay += time.Duration(s.rand.Int64N(int64(s.spread)))
	}
	s.mu.Unlock()
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
	if err := c.state.pass(out, c.closed); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	if err != nil { // that the other end is gone comes to be known as its bytes do; before that, writing works
		_ = c.state.hold(in, c.closed)
	}
	return n, err
}

func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if perr := c.state.pass(in, c.closed); perr != nil {
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
