package bubble

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc/test/bufconn"
)

// A server is who listens at an address, and the network in front of it.
type server struct {
	listener *bufconn.Listener
	gate     *Gate
}

const listenBuffer = 256 << 10 // of a connection in each direction

// Dial connects to the server at an address of the cluster, past every gate: it is the test's own way in.
func (c *Cluster) Dial(ctx context.Context, address string) (net.Conn, error) {
	c.mu.Lock()
	l := c.mu.servers[address].listener
	c.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	return l.DialContext(ctx)
}

// DialAsClient is Dial over the link between TestClient and who listens at the address.
func (c *Cluster) DialAsClient(ctx context.Context, address string) (net.Conn, error) {
	name, _, _ := strings.Cut(address, ":")
	dial := func(ctx context.Context, _, address string) (net.Conn, error) { return c.Dial(ctx, address) }
	return NewGateFrom(c.Link(TestClient, name), dial).Dial(ctx, address)
}

// dialFrom is how a node or router of the name reaches others: out through its own gate, over the link between the two,
// in through the other's gate.
func (c *Cluster) dialFrom(name string, own *Gate) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		dial := func(ctx context.Context, _, address string) (net.Conn, error) { return c.Dial(ctx, address) }
		c.mu.Lock()
		there := c.mu.servers[address].gate
		c.mu.Unlock()
		if there != nil {
			dial = NewGateFrom(there, dial).DialContext
		}
		other, _, _ := strings.Cut(address, ":")
		dial = NewGateFrom(c.Link(name, other), dial).DialContext
		return NewGateFrom(own, dial).Dial(ctx, address)
	}
}

// TestClient is the name of the test's own callers in Link; see ClientConn.
const TestClient = "client"

// kafkaFrom is how a node reaches the brokers: over its link to each of them, which Link knows by the broker's address.
func (c *Cluster) kafkaFrom(name string) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return NewGateFrom(c.Link(name, address), c.vn.DialContext).DialContext(ctx, network, address)
	}
}

// Link is the network between two of the nodes, routers, brokers (by their addresses) and TestClient, in any order.
func (c *Cluster) Link(a, b string) *Gate {
	name := min(a, b) + " " + max(a, b)
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.mu.links[name]
	if g == nil {
		g = NewGate(nil)
		c.mu.links[name] = g
	}
	return g
}

// listen makes a listener at an address of the cluster, behind a gate.
func (c *Cluster) listen(address string, gate *Gate) *bufconn.Listener {
	l := bufconn.Listen(listenBuffer)
	c.mu.Lock()
	c.mu.servers[address] = server{listener: l, gate: gate}
	c.mu.Unlock()
	return l
}

// unlisten makes connections to an address be refused, if it is still the listener's.
func (c *Cluster) unlisten(address string, gate *Gate) {
	c.mu.Lock()
	s := c.mu.servers[address]
	if s.gate != gate {
		c.mu.Unlock()
		return
	}
	delete(c.mu.servers, address)
	c.mu.Unlock()
	if s.listener != nil {
		_ = s.listener.Close()
	}
}
