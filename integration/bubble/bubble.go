// Package bubble runs a whole cluster inside one testing/synctest bubble: a kfake broker over an in-memory network, nodes,
// routers and clients over pipes. The bubble's clock jumps when everybody waits, so minutes pass in milliseconds and the
// same seed gives much the same run.
//
// A node can be killed (its network is cut in the middle of whatever it does, then it is stopped), frozen (its network
// stays silent, as SIGSTOP or a dead link would have it) and started again on the same state directory.
package bubble

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/iqgate/iqgate/node"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/tally"
	"github.com/iqgate/iqgate/topology"
)

// Cluster is the broker, the network and everybody on it.
type Cluster struct {
	T     testing.TB
	Kafka *kfake.Cluster
	Log   *slog.Logger

	vn   *kfake.VirtualNetwork
	dir  string
	topo func() *topology.Topology
	// reportTo are the addresses of the routers that nodes report to.
	reportTo []string

	mu struct {
		sync.Mutex
		servers map[string]server // by address: nodes and routers
		nodes   map[string]*Node
		routers map[string]*Router
		links   map[string]*Gate // see Link
	}
}

// Options of a cluster.
type Options struct {
	// Topics maps source and sink topics to their partition counts.
	Topics map[string]int32
	// Topology makes the application's topology; each node gets its own.
	Topology func() *topology.Topology
	// Routers are the names of the routers that every node reports to, whether they run or not. Default none.
	Routers []string
	// Brokers is the number of brokers. Default 1.
	Brokers int
	// Log takes everybody's log. Default none.
	Log io.Writer
	// Kafka are more options of the broker.
	Kafka []kfake.Opt
}

// New starts a broker. The caller is inside a bubble.
func New(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	c := &Cluster{T: tb, vn: &kfake.VirtualNetwork{}, dir: stateDir(tb), topo: o.Topology, Log: slog.New(slog.DiscardHandler)}
	if o.Log != nil {
		c.Log = slog.New(slog.NewTextHandler(o.Log, nil))
	}
	c.mu.servers = make(map[string]server)
	c.mu.nodes = make(map[string]*Node)
	c.mu.routers = make(map[string]*Router)
	c.mu.links = make(map[string]*Gate)
	for _, name := range o.Routers {
		c.reportTo = append(c.reportTo, routerAddress(name))
	}
	opts := []kfake.Opt{
		kfake.ListenFn(c.vn.Listen),
		kfake.Ports(ports(max(o.Brokers, 1))...),
		kfake.NumBrokers(max(o.Brokers, 1)),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "315360000000", "group.initial.rebalance.delay.ms": "0"}),
		kfake.GroupMinSessionTimeout(time.Second),
	}
	for topic, n := range o.Topics {
		opts = append(opts, kfake.SeedTopics(n, topic))
	}
	k, err := kfake.NewCluster(append(opts, o.Kafka...)...)
	if err != nil {
		tb.Fatal(err)
	}
	c.Kafka = k
	return c
}

// stateDir is where the nodes keep their stores: in memory where the system has such a file system, since a bubble's clock
// waits for the disk.
func stateDir(tb testing.TB) string {
	tb.Helper()
	const inMemory = "/dev/shm"
	dir, err := os.MkdirTemp(inMemory, "iqgate-bubble-") //nolint:usetesting // TempDir is on the disk
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func ports(n int) []int {
	ps := make([]int, n)
	for i := range ps {
		ps[i] = 9092 + i
	}
	return ps
}

// Close stops whatever runs.
func (c *Cluster) Close() {
	c.mu.Lock()
	var running sync.WaitGroup
	for _, n := range c.mu.nodes {
		running.Go(n.Stop)
	}
	for _, r := range c.mu.routers {
		running.Go(r.Stop)
	}
	c.mu.Unlock()
	running.Wait()
	c.Kafka.Close()
	// A client that was closed while it could not connect pauses once more, and nothing may be left when the bubble ends.
	<-time.After(time.Second)
}

// Client is a Kafka client of the test's own, whose network is never cut.
func (c *Cluster) Client(opts ...kgo.Opt) *kgo.Client {
	c.T.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.Kafka.ListenAddrs()...), kgo.Dialer(c.vn.DialContext), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}, opts...)...)
	if err != nil {
		c.T.Fatal(err)
	}
	return cl
}

// Conn is a gRPC connection to an address of the cluster, past every gate and link.
func (c *Cluster) Conn(address string) *grpc.ClientConn { return c.conn(address, c.Dial) }

// ClientConn is a gRPC connection to an address of the cluster over the link between TestClient and who listens there.
func (c *Cluster) ClientConn(address string) *grpc.ClientConn { return c.conn(address, c.DialAsClient) }

func (c *Cluster) conn(address string, dial func(context.Context, string) (net.Conn, error)) *grpc.ClientConn {
	c.T.Helper()
	cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, MaxDelay: 200 * time.Millisecond}, MinConnectTimeout: time.Second}))
	if err != nil {
		c.T.Fatal(err)
	}
	return cc
}

// StateDir is where a node keeps its stores.
func (c *Cluster) StateDir(id string) string { return filepath.Join(c.dir, id) }

// Node is one node of the cluster.
type Node struct {
	ID      string
	Address string

	c      *Cluster
	node   *node.Node
	gate   *Gate
	kafka  *Gate
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error
	cc     *grpc.ClientConn
}

// StartNode starts a node, with its configuration changed by edit.
func (c *Cluster) StartNode(id string, edit ...func(*node.Config)) *Node {
	c.T.Helper()
	n := &Node{ID: id, Address: id + ":7070", c: c, gate: NewGate(c.kafkaFrom(id)), done: make(chan struct{})}
	n.kafka = NewGate(n.gate.DialContext)
	cfg := node.Config{
		NodeID: id, Topology: c.topo(), Brokers: c.Kafka.ListenAddrs(), StateDir: c.StateDir(id),
		Listener: c.listen(n.Address, n.gate), Routers: c.reportTo, Advertised: n.Address, Logger: c.Log,
		KafkaOptions: []kgo.Opt{kgo.Dialer(n.kafka.DialContext)},
		Dial:         c.dialFrom(id, n.gate),
	}
	for _, e := range edit {
		e(&cfg)
	}
	nd, err := node.New(cfg)
	if err != nil {
		c.T.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.T.Context())) // ended by Stop and Kill
	n.node, n.cancel = nd, cancel
	go func() {
		defer close(n.done)
		n.err = nd.Run(ctx)
	}()
	n.cc = c.Conn(n.Address)
	c.mu.Lock()
	c.mu.nodes[id] = n
	c.mu.Unlock()
	return n
}

// Query is the node's own query service.
func (n *Node) Query() iqv1.QueryServiceClient { return iqv1.NewQueryServiceClient(n.cc) }

// Metadata is the node's own metadata service.
func (n *Node) Metadata() iqv1.MetadataServiceClient { return iqv1.NewMetadataServiceClient(n.cc) }

// Control is the node's own control service.
func (n *Node) Control() iqv1.ControlServiceClient { return iqv1.NewControlServiceClient(n.cc) }

// Tally is what the node tells of itself.
func (n *Node) Tally(now time.Time) tally.Node { return n.node.Tally(now) }

// Gate is the node's network.
func (n *Node) Gate() *Gate { return n.gate }

// Kafka is the node's network to the brokers alone.
func (n *Node) Kafka() *Gate { return n.kafka }

// Stop ends the node in order: it hands its tasks over first.
func (n *Node) Stop() { n.end(nil) }

// Kill cuts the node's network in the middle of whatever it does and then ends it: nobody hears anything more of it.
func (n *Node) Kill() {
	n.gate.Cut()
	n.c.unlisten(n.Address, n.gate)
	n.end(node.ErrStopNow)
}

// Done is closed when the node has ended.
func (n *Node) Done() <-chan struct{} { return n.done }

// Err is what the node ended with; only after Done.
func (n *Node) Err() error { return n.err }

// Wait waits until the node has ended by itself and returns its error.
func (n *Node) Wait() error {
	<-n.done
	n.end(nil)
	return n.err
}

func (n *Node) end(cause error) {
	n.cancel(cause)
	<-n.done
	n.c.unlisten(n.Address, n.gate)
	_ = n.cc.Close()
	n.c.mu.Lock()
	if n.c.mu.nodes[n.ID] == n {
		delete(n.c.mu.nodes, n.ID)
	}
	n.c.mu.Unlock()
}

// Eventually calls f every 10 ms of the bubble's time until it returns nil, and fails the test after limit.
func (c *Cluster) Eventually(limit time.Duration, what string, f func() error) {
	c.T.Helper()
	end := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.T.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Produce writes a record and waits until it is there.
func Produce(ctx context.Context, cl *kgo.Client, topic, key, value string) error {
	r := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)})
	if err := r.FirstErr(); err != nil {
		return fmt.Errorf("produce %s to %s: %w", key, topic, err)
	}
	return nil
}
