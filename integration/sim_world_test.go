//go:build synctests

package integration

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/integration/history"
	"github.com/iqgate/iqgate/partitioner"
)

// A simWorld is one simulated cluster and the notes that the test takes of it.
type simWorld struct {
	*bubble.Cluster
	t     *testing.T
	plan  simPlan
	start time.Time
	ctx   context.Context //nolint:containedctx // the run's
	cl    *kgo.Client     // writes and looks on
	adm   *kadm.Client

	mu struct {
		sync.Mutex
		h       history.History
		nodes   map[string]*simNode
		routers map[string]*simRouter     // running ones
		ends    map[int64][]time.Duration // when each producer id's commits reached the broker
		records []simRecord               // acknowledged
		latest  map[string]history.Input  // the newest of them of each key
		clock   time.Duration             // by which the producers' clock is wrong
		errs    []error
	}
}

// A simNode is a node over its lives.
type simNode struct {
	id     string
	life   int
	node   *bubble.Node // nil while it is down
	asked  *grpc.ClientConn
	steps  stepper
	noRoom atomic.Bool // on its disk
}

// A simRouter is a running router.
type simRouter struct {
	*bubble.Router
	asked *grpc.ClientConn
}

func newSimWorld(t *testing.T, p simPlan, log io.Writer) *simWorld {
	t.Helper()
	w := &simWorld{t: t, plan: p, start: time.Now(), ctx: t.Context()}
	w.Cluster = bubble.New(t, bubble.Options{
		Topics:   map[string]int32{"in": p.partitions},
		Topology: topologyOf(p.topology()), Routers: simRouters, Brokers: p.brokers, Log: log,
	})
	w.cl = w.Client(kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	w.adm = kadm.NewClient(w.cl)
	w.mu.nodes = make(map[string]*simNode)
	w.mu.routers = make(map[string]*simRouter)
	w.mu.ends = make(map[int64][]time.Duration)
	w.mu.latest = make(map[string]history.Input)
	w.mu.h.Latest, w.mu.h.Kinds = []string{simLatest}, p.kinds()
	w.mu.h.SampleMaxAge = 5 * time.Second
	w.mu.h.Grace = 1500 * time.Millisecond
	for _, store := range p.stores() {
		config := map[string]*string{"cleanup.policy": new("compact")}
		if store == simWindows || store == simSessions {
			config = map[string]*string{"cleanup.policy": new("compact,delete"), "retention.ms": new("-1")} // the observer reads all of it
		}
		if _, err := w.adm.CreateTopic(w.ctx, p.partitions, 1, config, simChangelog(store)); err != nil {
			t.Fatal(err)
		}
	}
	w.Kafka.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.Kafka.KeepControl()
		if r, ok := req.(*kmsg.EndTxnRequest); ok && r.Commit {
			w.mu.Lock()
			w.mu.ends[r.ProducerID] = append(w.mu.ends[r.ProducerID], w.now())
			w.mu.Unlock()
		}
		return nil, nil, false
	})
	return w
}

// Close ends whatever runs.
func (w *simWorld) Close() {
	w.mu.Lock()
	for _, n := range w.mu.nodes {
		if n.asked != nil {
			_ = n.asked.Close()
		}
	}
	for _, r := range w.mu.routers {
		_ = r.asked.Close()
	}
	w.mu.Unlock()
	w.Cluster.Close()
}

func simChangelog(store string) string { return "app-" + store + "-changelog" }

// now is the time since the run began.
func (w *simWorld) now() time.Duration { return time.Since(w.start) }

func (w *simWorld) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.errs = append(w.mu.errs, fmt.Errorf("at %s: %w", w.now(), err))
}

// startNode starts a node or starts it again on the same state. arm, when given, is called before.
func (w *simWorld) startNode(id string, arm func(*simNode)) {
	w.mu.Lock()
	n := w.mu.nodes[id]
	if n == nil {
		n = &simNode{id: id}
		n.steps.plan = w.plan
		w.mu.nodes[id] = n
	}
	w.mu.Unlock()
	n.steps.live()
	if arm != nil {
		arm(n)
	}
	bn := w.StartNode(id, func(c *nodeConfig) {
		c.SessionTimeout, c.RebalanceTimeout, c.Lease, c.GroupHeartbeat = simSession, 2*time.Second, simLease, 200*time.Millisecond
		c.TransactionTimeout, c.ShutdownTimeout, c.ReleaseDelay, c.TaskRetry = 3*time.Second, time.Second, 3*time.Second, time.Second
		c.Step = n.steps.at
		c.FreeBytes = n.free
	})
	w.atEase(bn.Gate(), id)
	asked := w.ClientConn(bn.Address)
	w.mu.Lock()
	n.node, n.asked = bn, asked
	n.life++
	w.mu.Unlock()
}

// free is how much room there is on the node's disk.
func (n *simNode) free(string) (int64, error) {
	if n.noRoom.Load() {
		return 0, nil
	}
	return 1 << 40, nil
}

// atEase makes a node's network as it is without a fault.
func (w *simWorld) atEase(g *bubble.Gate, id string) {
	g.Jitter(w.plan.latency, w.plan.spread, w.plan.seed<<8+uint64(id[0]))
}

// endNode ends a node by Kill or Stop and returns when nothing of it runs.
func (w *simWorld) endNode(id string, how func(*bubble.Node)) {
	w.mu.Lock()
	n := w.mu.nodes[id]
	bn, asked := n.node, n.asked
	n.node, n.asked = nil, nil
	w.mu.Unlock()
	defer func() { _ = asked.Close() }()
	select {
	case <-bn.Done():
		w.failed(fmt.Errorf("node %s has ended by itself: %w", id, bn.Err()))
	default:
	}
	how(bn)
}

// outage notes that something is kept from working until the function that it returns is called.
func (w *simWorld) outage(node, router string) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.mu.h.Outages)
	w.mu.h.Outages = append(w.mu.h.Outages, history.Outage{Node: node, Router: router, From: w.now(), To: time.Hour})
	return func() {
		w.mu.Lock()
		w.mu.h.Outages[i].To = w.now()
		w.mu.Unlock()
	}
}

func (w *simWorld) startRouter(name string) {
	r := w.StartRouter(name)
	asked := w.ClientConn(r.Address)
	w.mu.Lock()
	w.mu.routers[name] = &simRouter{r, asked}
	w.mu.Unlock()
}

// A stepper is what happens at the steps of what a node does.
type stepper struct {
	plan simPlan

	mu   sync.Mutex
	step string
	nth  int
	then func()
	dead bool
}

func (s *stepper) arm(step string, nth int, then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.nth, s.then = step, nth, then
}

func (s *stepper) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

func (s *stepper) live() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead, s.step = false, ""
}

func (s *stepper) at(step string) error {
	if s.plan.pause > 0 && step == s.plan.pauseStep {
		time.Sleep(s.plan.pause)
	}
	s.mu.Lock()
	then := s.then
	switch {
	case s.dead:
		s.mu.Unlock()
		return errCrash // a dead node does nothing more
	case step != s.step:
		s.mu.Unlock()
		return nil
	}
	if s.nth--; s.nth > 0 {
		s.mu.Unlock()
		return nil
	}
	s.step = ""
	s.mu.Unlock()
	then()
	return errCrash
}

func (w *simWorld) partitionOf(key string) int32 {
	return partitioner.Murmur2().Partition([]byte(key), w.plan.partitions)
}
