//go:build synctests

package integration

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/integration/history"
	"github.com/iqgate/iqgate/partitioner"
)

// The stores of the simulated application: the last sequence number of each key, and the number of records of each key or,
// through a repartition topic, of each group.
const (
	simLatest = "latest"
	simCounts = "counts"
)

func simTopology(repartition bool) string {
	text := `
application: app
sources:
  - topic: in
    format: csv
    columns: [group, sequence]
tables:
  - store: latest
    source: in
    value: sequence
aggregates:
  - store: counts
    source: in
    count: true
`
	if repartition {
		text += "    group_by: group\n"
	}
	return text
}

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
		routers map[string]*bubble.Router // running ones
		ends    map[int64][]time.Duration // when each producer id's commits reached the broker
		counts  map[string]int64          // records acknowledged, by key of counts
		latest  map[string]history.Input  // the newest record of each key that was acknowledged
		errs    []error
	}
}

// A simNode is a node over its lives.
type simNode struct {
	id    string
	life  int
	node  *bubble.Node // nil while it is down
	steps stepper
}

func newSimWorld(t *testing.T, p simPlan, log io.Writer) *simWorld {
	t.Helper()
	w := &simWorld{t: t, plan: p, start: time.Now(), ctx: t.Context()}
	w.Cluster = bubble.New(t, bubble.Options{
		Topics:   map[string]int32{"in": p.partitions},
		Topology: topologyOf(simTopology(p.repartition)), Routers: simRouters, Brokers: p.brokers, Log: log,
	})
	w.cl = w.Client(kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	w.adm = kadm.NewClient(w.cl)
	w.mu.nodes = make(map[string]*simNode)
	w.mu.routers = make(map[string]*bubble.Router)
	w.mu.ends = make(map[int64][]time.Duration)
	w.mu.counts = make(map[string]int64)
	w.mu.latest = make(map[string]history.Input)
	w.mu.h.Latest = []string{simLatest}
	w.mu.h.SampleMaxAge = 5 * time.Second
	w.mu.h.Grace = 1500 * time.Millisecond
	for _, store := range []string{simLatest, simCounts} {
		if _, err := w.adm.CreateTopic(w.ctx, p.partitions, 1, map[string]*string{"cleanup.policy": new("compact")}, simChangelog(store)); err != nil {
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

func simChangelog(store string) string { return "app-" + store + "-changelog" }

// now is the time since the run began.
func (w *simWorld) now() time.Duration { return time.Since(w.start) }

func (w *simWorld) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.errs = append(w.mu.errs, fmt.Errorf("at %s: %w", w.now(), err))
}

// startNode starts a node or starts it again on the same state.
func (w *simWorld) startNode(id string) {
	w.mu.Lock()
	n := w.mu.nodes[id]
	if n == nil {
		n = &simNode{id: id}
		n.steps.plan = w.plan
		w.mu.nodes[id] = n
	}
	w.mu.Unlock()
	bn := w.StartNode(id, func(c *nodeConfig) {
		c.SessionTimeout, c.RebalanceTimeout, c.Lease, c.GroupHeartbeat = simSession, 2*time.Second, simLease, 200*time.Millisecond
		c.TransactionTimeout, c.ShutdownTimeout, c.ReleaseDelay, c.TaskRetry = 3*time.Second, time.Second, 3*time.Second, time.Second
		c.Step = n.steps.at
	})
	bn.Gate().Slow(w.plan.latency)
	w.mu.Lock()
	n.node = bn
	n.life++
	w.mu.Unlock()
	n.steps.live()
}

// endNode ends a node by Kill or Stop and returns when nothing of it runs.
func (w *simWorld) endNode(id string, how func(*bubble.Node)) {
	w.mu.Lock()
	n := w.mu.nodes[id]
	bn := n.node
	n.node = nil
	w.mu.Unlock()
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

// do makes an event happen, and returns when it is over.
func (w *simWorld) do(e simEvent) {
	switch e.kind {
	case killNode, stopNode:
		over := w.outage(e.who, "")
		began := time.Now()
		if e.kind == killNode {
			w.endNode(e.who, (*bubble.Node).Kill)
		} else {
			w.endNode(e.who, (*bubble.Node).Stop)
		}
		time.Sleep(e.last - time.Since(began))
		w.startNode(e.who)
		over()
	case crashNode:
		w.crash(e)
	case failStep:
		w.mu.Lock()
		n := w.mu.nodes[e.who]
		w.mu.Unlock()
		n.steps.arm(e.step, e.nth, func() {})
	case freezeNode:
		gate := w.gate(e.who)
		over := w.outage(e.who, "")
		gate.Freeze()
		time.Sleep(e.last)
		gate.Thaw()
		over()
	case freezeKafka:
		w.mu.Lock()
		kafka := w.mu.nodes[e.who].node.Kafka()
		w.mu.Unlock()
		kafka.Freeze()
		time.Sleep(e.last)
		kafka.Thaw()
	case slowNode:
		gate := w.gate(e.who)
		gate.Slow(e.delay)
		time.Sleep(e.last)
		gate.Slow(w.plan.latency)
	case freezeLink:
		over := w.outage(e.who, e.router)
		w.Link(e.who, e.router).Freeze()
		time.Sleep(e.last)
		w.Link(e.who, e.router).Thaw()
		over()
	case killRouter, stopRouter:
		over := w.outage("", e.who)
		began := time.Now()
		w.mu.Lock()
		r := w.mu.routers[e.who]
		delete(w.mu.routers, e.who)
		w.mu.Unlock()
		if e.kind == killRouter {
			r.Kill()
		} else {
			r.Stop()
		}
		if err := r.Err(); err != nil && e.kind == stopRouter {
			w.failed(fmt.Errorf("router %s: %w", e.who, err))
		}
		time.Sleep(e.last - time.Since(began))
		w.startRouter(e.who)
		over()
	case brokerFault:
		f := kfake.Fault{Keys: []kmsg.Key{e.request}, Err: e.err, Count: e.count, When: fromNode}
		w.Kafka.Fault(f)
	case stallChangelog:
		h := w.Kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: simChangelog(e.who), Err: kerr.UnknownServerError, Count: -1, When: fromNode})
		time.Sleep(e.last)
		h.Remove()
	case moveLeaders:
		w.Kafka.ShufflePartitionLeaders()
	case simKinds:
	}
}

// fromNode leaves the test's own requests alone.
func fromNode(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		return r.MaxWaitMillis == simNodeFetch
	case *kmsg.ProduceRequest:
		return r.TransactionID != nil
	}
	return true
}

func (w *simWorld) startRouter(name string) {
	r := w.StartRouter(name)
	w.mu.Lock()
	w.mu.routers[name] = r
	w.mu.Unlock()
}

func (w *simWorld) gate(node string) *bubble.Gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.nodes[node].node.Gate()
}

// simCrashWithin is how long a node that should crash at a step may take to get there before it is killed anyway.
const simCrashWithin = 2 * time.Second

// crash cuts a node off at a step of its commit and starts it again.
func (w *simWorld) crash(e simEvent) {
	w.mu.Lock()
	n := w.mu.nodes[e.who]
	gate := n.node.Gate()
	w.mu.Unlock()
	crashed := make(chan func(), 1)
	n.steps.arm(e.step, e.nth, func() {
		crashed <- w.outage(e.who, "")
		gate.Cut()
		n.steps.die()
	})
	var over func()
	limit := time.NewTimer(simCrashWithin)
	defer limit.Stop()
	select {
	case over = <-crashed:
	case <-limit.C:
		n.steps.arm("", 0, nil)
		select {
		case over = <-crashed:
		default:
			over = w.outage(e.who, "")
		}
	}
	w.endNode(e.who, (*bubble.Node).Kill)
	time.Sleep(e.last)
	w.startNode(e.who)
	over()
}

// A stepper is what happens at the steps of a node's commits.
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

// playEvents makes all events of the plan happen, those of one node or router in order, and returns when all are over.
func (w *simWorld) playEvents() {
	byWho := make(map[string][]simEvent)
	for _, e := range w.plan.events {
		byWho[e.who] = append(byWho[e.who], e)
	}
	var all sync.WaitGroup
	for _, events := range byWho {
		all.Go(func() {
			for _, e := range events {
				time.Sleep(e.at - w.now())
				w.do(e)
			}
		})
	}
	all.Wait()
}

// wanted is the right last value of each key of each store. The caller holds the lock.
func (w *simWorld) wanted() []history.Commit {
	var all []history.Commit
	for key, in := range w.mu.latest {
		c := history.Commit{Partition: history.Partition{Store: simLatest, Partition: in.Partition}, Key: key, Value: in.Value, Deleted: in.Deletes}
		if c.Deleted {
			c.Value = ""
		}
		all = append(all, c)
	}
	for key, n := range w.mu.counts {
		p := history.Partition{Store: simCounts, Partition: w.partitionOf(key)}
		all = append(all, history.Commit{Partition: p, Key: key, Value: fmt.Sprint(n)})
	}
	slices.SortFunc(all, func(a, b history.Commit) int {
		return cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Key, b.Key))
	})
	return all
}

func (w *simWorld) partitionOf(key string) int32 {
	return partitioner.Murmur2().Partition([]byte(key), w.plan.partitions)
}
