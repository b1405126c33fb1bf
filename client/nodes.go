package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	// MaxNodeConnections is the most connections to nodes that a client in direct mode has. What the other nodes hold is
	// read through a router.
	MaxNodeConnections = 256
	// nodeRest is how long a node is left alone that could not be reached or did not answer in time, although its router
	// hears it: the way from here may be cut, and not every read is to wait for it.
	nodeRest = time.Second
	// fairLimit is the time that a node must have been given before its silence says anything of it.
	fairLimit = 100 * time.Millisecond
)

// errSuspect is why a read was taken back from a node: the node became suspect or went while it was asked.
var errSuspect = errors.New("the node became suspect while it was asked")

// node is the connection to one incarnation of a node at one address.
type node struct {
	incarnation metadata.Incarnation
	address     string
	query       iqv1.QueryServiceClient
	lookups     *lookups // nil without WithLookups
	close       func() error
	outstanding atomic.Int32 // reads that it has not answered yet

	mu struct {
		sync.Mutex
		asked map[*asking]struct{} // reads that are taken back when it becomes suspect
		rests time.Time            // until then nobody asks it
	}
}

// asking is one read that a node has not answered yet.
type asking struct{ cancel context.CancelCauseFunc }

// begin counts a read that ends when the node becomes suspect, after limit at the latest. The caller calls the function
// returned when the read is over.
func (n *node) begin(ctx context.Context, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, expire := context.WithTimeout(ctx, limit)
	a := &asking{cancel}
	n.outstanding.Add(1)
	n.mu.Lock()
	n.mu.asked[a] = struct{}{}
	n.mu.Unlock()
	return ctx, func() {
		n.mu.Lock()
		delete(n.mu.asked, a)
		n.mu.Unlock()
		expire()
		cancel(nil)
		n.outstanding.Add(-1)
	}
}

// takeBack ends the reads that it has not answered.
func (n *node) takeBack() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for a := range n.mu.asked {
		a.cancel(errSuspect)
	}
}

func (n *node) rest(until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.rests = until
}

func (n *node) rests(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return now.Before(n.mu.rests)
}

// nodes are the connections to the nodes of the newest view. One is made when it is first asked for, and closed when its
// node dies, moves, starts anew or goes.
type nodes struct {
	dial    []grpc.DialOption
	lookups bool // see WithLookups

	mu struct {
		sync.Mutex
		view   *metadata.View // who may be connected to; nil after close
		byNode map[metadata.NodeID]*node
	}
}

func newNodes(dial []grpc.DialOption, lookups bool) *nodes {
	ns := &nodes{dial: dial, lookups: lookups}
	ns.mu.view = metadata.NewView(metadata.Limits{})
	ns.mu.byNode = map[metadata.NodeID]*node{}
	return ns
}

// get gives the connection to a node as some view has it. It is nil when the newest view has it otherwise, when there are
// MaxNodeConnections already, and when the address is none that could be dialed.
func (ns *nodes) get(want *metadata.Node) *node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.mu.byNode[want.ID]; n != nil {
		if n.incarnation == want.Incarnation && n.address == want.Address {
			return n
		}
		return nil
	}
	if ns.mu.view == nil || !belongs(ns.mu.view, want.ID, want.Incarnation, want.Address) || len(ns.mu.byNode) >= MaxNodeConnections {
		return nil
	}
	conn, err := grpc.NewClient("passthrough:///"+want.Address, ns.dial...) // dials in the background, at the first read
	if err != nil {
		return nil
	}
	n := &node{incarnation: want.Incarnation, address: want.Address, query: iqv1.NewQueryServiceClient(conn), close: conn.Close}
	if ns.lookups {
		n.lookups = newLookups(conn, want.Address)
		n.close = n.lookups.closer(conn.Close)
	}
	n.mu.asked = map[*asking]struct{}{}
	ns.mu.byNode[want.ID] = n
	return n
}

// belongs says whether v has that incarnation of a node, alive at that address.
func belongs(v *metadata.View, id metadata.NodeID, incarnation metadata.Incarnation, address string) bool {
	n := v.Node(id)
	return n != nil && n.Alive && !n.Refused && n.Incarnation == incarnation && n.Address == address
}

// outstanding is the number of this client's reads that a node has not answered.
func (ns *nodes) outstanding(id metadata.NodeID) int32 {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.mu.byNode[id]; n != nil {
		return n.outstanding.Load()
	}
	return 0
}

// follow closes the connections that v has no use for, and takes back the reads at suspect nodes. A nil view closes all,
// for good. The error joins what could not be closed.
func (ns *nodes) follow(v *metadata.View) error {
	var gone, suspects []*node
	ns.mu.Lock()
	ns.mu.view = v
	for id, n := range ns.mu.byNode {
		switch {
		case v == nil || !belongs(v, id, n.incarnation, n.address):
			gone = append(gone, n)
			delete(ns.mu.byNode, id)
		case v.Node(id).Suspect:
			suspects = append(suspects, n)
		}
	}
	ns.mu.Unlock()
	for _, n := range append(suspects, gone...) {
		n.takeBack()
	}
	var errs []error
	for _, n := range gone {
		errs = append(errs, n.close()) // what was under way fails and goes to the next replica
	}
	return errors.Join(errs...)
}
