package certs

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// renewWithin is how long after a change of the files the last connection that was made before is closed. Each has its own
// moment, so that not all links of a process break at once.
const renewWithin = 10 * time.Second

// links are connections that were dialled and are open.
type links struct {
	mu struct {
		sync.Mutex
		open map[*link]struct{}
	}
}

// link is a connection that is forgotten when it is closed.
type link struct {
	net.Conn
	of *links
}

func (l *links) add(conn net.Conn) net.Conn {
	c := &link{Conn: conn, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.open == nil {
		l.mu.open = make(map[*link]struct{})
	}
	l.mu.open[c] = struct{}{}
	return c
}

// Close implements net.Conn.
func (c *link) Close() error {
	c.of.mu.Lock()
	delete(c.of.mu.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// retire closes the connections that are open now, each within renewWithin.
func (l *links) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.mu.open {
		time.AfterFunc(rand.N(renewWithin), func() { _ = c.Close() }) //nolint:gosec // spreads work over time, guards nothing
	}
}
