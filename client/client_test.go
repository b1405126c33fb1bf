package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// router is a server in memory that records what it is asked and answers as the test says.
type router struct {
	iqv1.UnimplementedQueryServiceServer
	iqv1.UnimplementedMetadataServiceServer
	iqv1.UnimplementedControlServiceServer

	multiGet func(context.Context, *iqv1.MultiGetRequest) (*iqv1.MultiGetResponse, error)
	count    func(context.Context, *iqv1.CountRequest) (*iqv1.CountResponse, error)
	scan     func(*iqv1.ScanRequest, iqv1.QueryService_ScanServer) error
	changes  func(*iqv1.WatchRequest, iqv1.QueryService_WatchServer) error
	drain    func(*iqv1.DrainRequest, iqv1.ControlService_DrainServer) error

	stores []*iqv1.StoreInfo // in place of those that ListStores gives otherwise

	get   func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error)
	watch func(iqv1.MetadataService_WatchMetadataServer) error

	mu struct {
		sync.Mutex
		gets   []*iqv1.GetRequest
		listed int
	}
}

// listed is how often the stores were asked for.
func (r *router) listed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.listed
}

func (r *router) Get(ctx context.Context, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	r.mu.Lock()
	r.mu.gets = append(r.mu.gets, req)
	r.mu.Unlock()
	res, err := r.get(ctx, req)
	return res, iqerr.Status(err)
}

func (r *router) WatchMetadata(_ *iqv1.WatchMetadataRequest, stream iqv1.MetadataService_WatchMetadataServer) error {
	if r.watch == nil {
		return status.Error(codes.Unimplemented, "nothing to watch")
	}
	return r.watch(stream)
}

// asked is how many reads have come.
func (r *router) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.gets)
}

// last is the newest read.
func (r *router) last() *iqv1.GetRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.gets[len(r.mu.gets)-1]
}

func answers(res *iqv1.GetResponse) *router {
	return &router{get: func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) { return res, nil }}
}

func fails(err error) *router {
	return &router{get: func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) { return nil, err }}
}

// hangs answers nothing for as long as the caller waits.
func hangs() *router {
	return &router{get: func(ctx context.Context, _ *iqv1.GetRequest) (*iqv1.GetResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
}

func value(s string) *iqv1.GetResponse {
	return &iqv1.GetResponse{Found: true, Value: []byte(s), Served: &iqv1.ReplicaStatus{Node: "b", Role: iqv1.Role_ROLE_STANDBY}}
}

const scheme = "passthrough:///"

// network is a set of routers and nodes that a client can dial by name; a nil one refuses connections.
type network struct {
	wg sync.WaitGroup
	mu struct {
		sync.Mutex
		listeners map[string]*bufconn.Listener
		servers   map[string]*grpc.Server
		dialed    map[string]int
	}
}

func newNetwork(t *testing.T, routers map[string]*router) *network {
	t.Helper()
	n := &network{}
	n.mu.listeners, n.mu.servers, n.mu.dialed = map[string]*bufconn.Listener{}, map[string]*grpc.Server{}, map[string]int{}
	for name, r := range routers {
		if r != nil {
			n.start(name, r)
		}
	}
	t.Cleanup(n.close)
	return n
}

func (n *network) start(name string, r *router) {
	l, s := bufconn.Listen(1<<16), grpc.NewServer(grpc.MaxRecvMsgSize(client.MaxMessageBytes), grpc.MaxSendMsgSize(client.MaxMessageBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}))
	iqv1.RegisterQueryServiceServer(s, r)
	iqv1.RegisterMetadataServiceServer(s, r)
	iqv1.RegisterControlServiceServer(s, r)
	n.mu.Lock()
	n.mu.listeners[name], n.mu.servers[name] = l, s
	n.mu.Unlock()
	n.wg.Go(func() { _ = s.Serve(l) })
}

// kill breaks a server's connections; from then on its name refuses them.
func (n *network) kill(name string) {
	n.mu.Lock()
	s := n.mu.servers[name]
	delete(n.mu.listeners, name)
	n.mu.Unlock()
	s.Stop()
}

func (n *network) close() {
	for _, s := range n.mu.servers {
		s.Stop()
	}
	n.wg.Wait()
}

// dialed is how many connections to a name were made or refused.
func (n *network) dialed(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.dialed[name]
}

func (n *network) dial(ctx context.Context, name string) (net.Conn, error) {
	n.mu.Lock()
	l, ok := n.mu.listeners[name]
	n.mu.dialed[name]++
	n.mu.Unlock()
	if !ok {
		return nil, errors.New("connection refused")
	}
	return l.DialContext(ctx)
}

// client gives a client that asks r1, r2, … in that order.
func (n *network) client(t *testing.T, names string, opts ...client.Option) *client.Client {
	t.Helper()
	var targets []string
	for name := range strings.FieldsSeq(names) {
		targets = append(targets, scheme+name)
	}
	opts = append([]client.Option{client.WithTargetsInOrder(), client.WithDialOptions(grpc.WithContextDialer(n.dial))}, opts...)
	c, err := client.New(targets, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
