package bubble

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/router"
	"github.com/iqgate/iqgate/tally"
)

// Router is one router of the cluster.
type Router struct {
	Name    string
	Address string

	c      *Cluster
	router *router.Router
	gate   *Gate
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	cc     *grpc.ClientConn
}

func routerAddress(name string) string { return name + ":7000" }

// StartRouter starts a router, with its configuration changed by edit. Nodes report to it if its name is among
// Options.Routers.
func (c *Cluster) StartRouter(name string, edit ...func(*router.Config)) *Router {
	c.T.Helper()
	r := &Router{Name: name, Address: routerAddress(name), c: c, gate: NewGate(nil), done: make(chan struct{})}
	cfg := router.Config{Name: name, Listener: c.listen(r.Address, r.gate), Dial: c.dialFrom(name, r.gate), Logger: c.Log.With(slog.String("router", name))}
	for _, e := range edit {
		e(&cfg)
	}
	rt, err := router.New(cfg)
	if err != nil {
		c.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.T.Context())) // ended by Stop and Kill
	r.router, r.cancel = rt, cancel
	go func() {
		defer close(r.done)
		r.err = rt.Run(ctx)
	}()
	r.cc = c.Conn(r.Address)
	c.mu.Lock()
	c.mu.routers[name] = r
	c.mu.Unlock()
	return r
}

// Query is the router's query service, asked past every gate.
func (r *Router) Query() iqv1.QueryServiceClient { return iqv1.NewQueryServiceClient(r.cc) }

// Metadata is the router's metadata service, asked past every gate.
func (r *Router) Metadata() iqv1.MetadataServiceClient { return iqv1.NewMetadataServiceClient(r.cc) }

// Control is the router's control service, asked past every gate.
func (r *Router) Control() iqv1.ControlServiceClient { return iqv1.NewControlServiceClient(r.cc) }

// Register has a server within the process answer as the router does.
func (r *Router) Register(s grpc.ServiceRegistrar) { r.router.Register(s) }

// Tally is what the router tells of itself.
func (r *Router) Tally(now time.Time) tally.Router { return r.router.Tally(now) }

// View is what the router knows of the nodes.
func (r *Router) View() *metadata.View { return r.router.View() }

// Gate is the router's network, to nodes and from them.
func (r *Router) Gate() *Gate { return r.gate }

// Stop ends the router in order.
func (r *Router) Stop() { r.end() }

// Kill cuts the router's network in the middle of whatever it does and then ends it.
func (r *Router) Kill() {
	r.gate.Cut()
	r.c.unlisten(r.Address, r.gate)
	r.end()
}

// Err is what the router ended with; only after Stop or Kill.
func (r *Router) Err() error { return r.err }

func (r *Router) end() {
	r.cancel()
	<-r.done
	r.c.unlisten(r.Address, r.gate)
	_ = r.cc.Close()
	r.c.mu.Lock()
	if r.c.mu.routers[r.Name] == r {
		delete(r.c.mu.routers, r.Name)
	}
	r.c.mu.Unlock()
}
