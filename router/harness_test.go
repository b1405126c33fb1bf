package router

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/mux"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// world is an in-memory network with one router, inside a synctest bubble.
type world struct {
	t      *testing.T
	router *Router
	client iqv1.QueryServiceClient
	meta   iqv1.MetadataServiceClient
	conn   *grpc.ClientConn
	stop   context.CancelFunc // ends the router
	ended  chan error         // what Run returned

	info *iqv1.StoreInfo // what nodes tell of their store; nil for one partition of key-value
	rows *rowSet         // what the store holds

	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
	dials     map[string]int // by address, refused ones too
}

// inBubble runs a test in a bubble, with a router of the configuration given. It fails when anything is left running.
func inBubble(t *testing.T, c Config, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w := &world{t: t, listeners: map[string]*bufconn.Listener{}, dials: map[string]int{}, ended: make(chan error, 1)}
		c.Listener, c.Dial = w.listen("router:7000"), w.dial
		if c.Logger == nil {
			c.Logger = slog.New(slog.DiscardHandler)
		}
		r, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		w.router = r
		ctx, cancel := context.WithCancel(t.Context())
		w.stop = cancel
		go func() { w.ended <- r.Run(ctx) }()
		w.conn = w.connect("router:7000")
		w.client, w.meta = iqv1.NewQueryServiceClient(w.conn), iqv1.NewMetadataServiceClient(w.conn)
		test(w)
		cancel()
		if err := <-w.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		_ = w.conn.Close()
	})
}

func (w *world) listen(address string) *bufconn.Listener {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := bufconn.Listen(1 << 20)
	w.listeners[address] = l
	return l
}

func (w *world) unlisten(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.listeners, address)
}

func (w *world) dialed(address string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials[address]
}

// dial refuses where nobody listens, as a kernel does.
func (w *world) dial(ctx context.Context, address string) (net.Conn, error) {
	w.mu.Lock()
	l := w.listeners[address]
	w.dials[address]++
	w.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return l.DialContext(ctx)
}

func (w *world) connect(address string) *grpc.ClientConn {
	w.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(w.dial), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// fakeNode is a node as the router sees one: a query server and a stream of heartbeats.
type fakeNode struct {
	w       *world
	id      string
	address string
	server  *grpc.Server
	conn    *grpc.ClientConn
	done    sync.WaitGroup
	cancel  context.CancelFunc

	iqv1.UnimplementedQueryServiceServer
	iqv1.UnimplementedControlServiceServer
	drain   func(m *iqv1.DrainRequest, stream iqv1.ControlService_DrainServer) error // set before the node is asked
	mu      sync.Mutex
	answer  func(ctx context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error)
	report  *iqv1.HeartbeatRequest
	silent  bool
	old     bool // it does not know Lookups
	streams fakeStreams
	asked   int
	replies []*iqv1.HeartbeatResponse
	refused error // why the router ended the stream
}

const heartbeatEvery = 100 * time.Millisecond

// join starts a node with its replicas and waits until the router has its first report.
func (w *world) join(id string, replicas ...*iqv1.ReplicaStatus) *fakeNode {
	n := w.start(id, id+":7070", 1, replicas...)
	synctest.Wait()
	return n
}

func (w *world) start(id, address string, incarnation int64, replicas ...*iqv1.ReplicaStatus) *fakeNode {
	w.t.Helper()
	n := &fakeNode{w: w, id: id, address: address}
	n.report = &iqv1.HeartbeatRequest{
		Node: id, Incarnation: incarnation, Application: "app", Address: address, Generation: 1, Full: true,
		Interval: durationpb.New(heartbeatEvery), Replicas: replicas,
		Stores: []*iqv1.StoreInfo{{
			Name: "s", Partitions: 1, ActualPartitions: 1, Partitioner: "murmur2", Kind: "keyvalue", SourceTopics: []string{"in"},
		}},
	}
	if w.info != nil {
		n.report.Stores = []*iqv1.StoreInfo{w.info}
	}
	n.answer = func(_ context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
		return &iqv1.GetResponse{Found: true, Value: []byte("from " + id), Served: n.status(m)}, nil
	}
	n.serve()
	ctx, cancel := context.WithCancel(w.t.Context())
	n.cancel = cancel
	n.conn = w.connect("router:7000")
	n.done.Go(func() { n.heartbeat(ctx) })
	return n
}

func (n *fakeNode) serve() {
	n.server = grpc.NewServer(grpc.MaxSendMsgSize(64<<20), grpc.WaitForHandlers(true), grpc.ForceServerCodecV2(mux.Codec{}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}))
	iqv1.RegisterQueryServiceServer(n.server, n)
	iqv1.RegisterControlServiceServer(n.server, n)
	l := n.w.listen(n.address)
	n.done.Go(func() { _ = n.server.Serve(l) })
}

func (n *fakeNode) heartbeat(ctx context.Context) {
	stream, err := iqv1.NewControlServiceClient(n.conn).Heartbeat(ctx)
	if err != nil {
		return
	}
	n.done.Go(func() {
		for {
			m, err := stream.Recv()
			n.mu.Lock()
			if err != nil {
				n.refused = err
				n.mu.Unlock()
				return
			}
			n.replies = append(n.replies, m)
			n.mu.Unlock()
		}
	})
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	for {
		n.mu.Lock()
		m := proto.CloneOf(n.report)
		n.report.Sequence++
		m.Sequence = n.report.Sequence
		silent := n.silent
		n.mu.Unlock()
		if !silent && stream.Send(m) != nil {
			return
		}
		if m.GetLeaving() {
			_ = stream.CloseSend()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Get answers as the test has said.
func (n *fakeNode) Get(ctx context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	n.mu.Lock()
	n.asked++
	answer := n.answer
	n.mu.Unlock()
	return answer(ctx, m)
}

// Lookups answers each lookup as Get does.
func (n *fakeNode) Lookups(stream iqv1.QueryService_LookupsServer) error {
	n.mu.Lock()
	old := n.old
	n.mu.Unlock()
	if old {
		return n.UnimplementedQueryServiceServer.Lookups(stream)
	}
	answers := mux.Server{Readers: &n.done, Handler: func(ctx context.Context, request []byte) ([]byte, error) {
		m := &iqv1.GetRequest{}
		if err := proto.Unmarshal(request, m); err != nil {
			return nil, err
		}
		resp, err := n.Get(ctx, m)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(resp)
	}}
	return answers.Serve(stream)
}

// Drain does as the test has said.
func (n *fakeNode) Drain(m *iqv1.DrainRequest, stream iqv1.ControlService_DrainServer) error {
	return n.drain(m, stream)
}

func (n *fakeNode) status(m *iqv1.GetRequest) *iqv1.ReplicaStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.report.GetReplicas() {
		if s.GetStore() == m.GetStore() && s.GetPartition() == m.GetPartition() {
			s = proto.CloneOf(s)
			s.Node = n.id
			return s
		}
	}
	return nil
}

func (n *fakeNode) answers(f func(ctx context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = f
}

func (n *fakeNode) fails(err error) {
	n.answers(func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) { return nil, err })
}

func (n *fakeNode) hangs() {
	n.answers(func(ctx context.Context, _ *iqv1.GetRequest) (*iqv1.GetResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
}

// change edits what the node reports from its next heartbeat on.
func (n *fakeNode) change(edit func(m *iqv1.HeartbeatRequest)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	edit(n.report)
}

func (n *fakeNode) silence(silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = silent
}

func (n *fakeNode) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// suspects are what the router has told the node last.
func (n *fakeNode) suspects() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.replies) == 0 {
		return ""
	}
	var s string
	for _, x := range n.replies[len(n.replies)-1].GetSuspects() {
		s += fmt.Sprintf("%s refused=%t ", x.GetNode(), x.GetRefused())
	}
	return s
}

// kill ends the node as SIGKILL does: its connections break and its address refuses.
func (n *fakeNode) kill() {
	n.w.unlisten(n.address)
	n.cancel()
	_ = n.conn.Close()
	n.server.Stop()
	n.done.Wait()
	synctest.Wait() // the router has noticed
}

// advance lets bubble time pass.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func active(position int64) *iqv1.ReplicaStatus {
	return replica(iqv1.Role_ROLE_ACTIVE, position, position, 0)
}

func standby(position, end int64) *iqv1.ReplicaStatus {
	return replica(iqv1.Role_ROLE_STANDBY, position, end, 100*time.Millisecond)
}

func replica(role iqv1.Role, position, end int64, timeLag time.Duration) *iqv1.ReplicaStatus {
	lag := end - position
	return &iqv1.ReplicaStatus{
		Store: "s", Role: role, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, Generation: 1, Position: position, EndPosition: end,
		OffsetLag: &lag, TimeLag: durationpb.New(timeLag), SampleAge: durationpb.New(0), LeaseValid: role == iqv1.Role_ROLE_ACTIVE,
	}
}

func get(mode iqv1.ReadPolicy_Mode) *iqv1.GetRequest {
	return &iqv1.GetRequest{Store: "s", Key: []byte("k0"), Policy: &iqv1.ReadPolicy{Mode: mode}}
}

func maxOffsetLag(n int64) *iqv1.GetRequest {
	m := get(iqv1.ReadPolicy_MODE_BOUNDED)
	m.Policy.MaxOffsetLag = &n
	return m
}

// ask reads with a deadline of two seconds and says how long it took.
func (w *world) ask(m *iqv1.GetRequest) (*iqv1.GetResponse, error, time.Duration) { //nolint:staticcheck // the time belongs to both outcomes
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
	defer cancel()
	start := time.Now()
	resp, err := w.client.Get(ctx, m)
	return resp, err, time.Since(start)
}
