//go:build synctests

package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/integration/bubble"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// playEvents makes all events of the plan happen, those of one node or router in order, and returns when all are over.
func (w *simWorld) playEvents() {
	byWho := make(map[string][]simEvent)
	for _, e := range w.plan.events {
		who := e.who
		switch e.kind { //nolint:exhaustive // whose events wait for one another
		case freezeClient:
			who = "client of " + who
		case freezeLink:
			who += " " + e.other
		case brokerFault, dropRequest, loseReply, moveLeaders, moveGroups, jumpClock:
			who = "brokers" // which takes no time
		}
		byWho[who] = append(byWho[who], e)
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

// do makes an event happen, and returns when it is over.
func (w *simWorld) do(e simEvent) {
	switch e.kind {
	case killNode:
		w.restart(e, (*bubble.Node).Kill, nil)
	case stopNode:
		w.restart(e, (*bubble.Node).Stop, nil)
	case drainNode:
		w.restart(e, w.drain, nil)
	case crashNode:
		w.crash(e)
	case crashStart:
		w.crashStart(e)
	case failStep:
		w.node(e.who).steps.arm(e.step, e.nth, func() {})
	case freezeNode, freezeKafka, freezeBroker, freezeLink, freezeClient:
		w.freeze(e)
	case slowNode:
		gate := w.gate(e.who)
		gate.Jitter(e.delay, e.delay, w.plan.seed)
		time.Sleep(e.last)
		w.atEase(gate, e.who)
	case resetNode:
		w.gate(e.who).Reset()
	case fullDisk:
		n := w.node(e.who)
		n.noRoom.Store(true)
		time.Sleep(e.last)
		n.noRoom.Store(false)
	case killRouter:
		w.restartRouter(e, (*bubble.Router).Kill)
	case stopRouter:
		w.restartRouter(e, (*bubble.Router).Stop)
	case brokerFault:
		f := kfake.Fault{Keys: []kmsg.Key{e.request}, Err: e.err, Count: e.count, When: fromNode}
		if errors.Is(e.err, kerr.OffsetOutOfRange) { // said of a changelog it means a rebuild: that is none of the faults here
			f.Topic = "in"
		}
		w.Kafka.Fault(f)
	case dropRequest, loseReply:
		w.lose(e)
	case stallChangelog:
		h := w.Kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: simChangelog(e.who), Err: kerr.UnknownServerError, Count: -1, When: fromNode})
		time.Sleep(e.last)
		h.Remove()
	case moveLeaders:
		w.moveLeaders(e)
	case moveGroups:
		w.Kafka.RehashCoordinators()
	case joinGuest:
		w.startNode(e.who, nil)
		time.Sleep(e.last)
		if e.wipe {
			w.endNode(e.who, (*bubble.Node).Kill)
		} else {
			w.endNode(e.who, (*bubble.Node).Stop)
		}
	case jumpClock:
		w.mu.Lock()
		w.mu.clock += e.delay
		w.mu.Unlock()
	case simKinds:
	}
}

func (w *simWorld) node(id string) *simNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.nodes[id]
}

func (w *simWorld) gate(node string) *bubble.Gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.nodes[node].node.Gate()
}

// restart ends a node and starts it again.
func (w *simWorld) restart(e simEvent, how func(*bubble.Node), arm func(*simNode)) {
	over := w.outage(e.who, "")
	began := time.Now()
	w.endNode(e.who, how)
	if e.wipe {
		if err := os.RemoveAll(w.StateDir(e.who)); err != nil {
			w.failed(err)
		}
	}
	time.Sleep(e.last - time.Since(began))
	w.startNode(e.who, arm)
	over()
}

// simDrained is how long a drain may take: the node hands over, says goodbye and ends.
const simDrained = 20 * time.Second

// drain tells a node to hand over and waits until it has ended.
func (w *simWorld) drain(n *bubble.Node) {
	ctx, cancel := context.WithTimeout(w.ctx, simDrained)
	defer cancel()
	st, err := n.Control().Drain(ctx, &iqv1.DrainRequest{Node: n.ID})
	for err == nil {
		_, err = st.Recv()
	}
	if !errors.Is(err, io.EOF) { // it is told and then its connection ends, or it was just about to end
		w.Log.Info("drain ended", slog.String("node", n.ID), slog.Any("error", err))
	}
	select {
	case <-n.Done():
		if n.Err() != nil {
			w.failed(fmt.Errorf("node %s was drained: %w", n.ID, n.Err()))
		}
	case <-ctx.Done():
		w.failed(fmt.Errorf("node %s has not ended %s after it was told to drain", n.ID, simDrained))
	}
	n.Stop()
}

// freeze lets nothing pass over a link for a while.
func (w *simWorld) freeze(e simEvent) {
	var gate *bubble.Gate
	over := func() {}
	switch e.kind { //nolint:exhaustive // those that freeze
	case freezeNode:
		gate, over = w.gate(e.who), w.outage(e.who, "")
	case freezeKafka:
		gate = w.node(e.who).node.Kafka()
	case freezeBroker:
		gate = w.Link(e.who, w.Kafka.ListenAddrs()[e.broker])
	case freezeLink:
		gate, over = w.Link(e.who, e.other), w.outage(e.who, e.other)
	case freezeClient:
		gate, over = w.Link(bubble.TestClient, e.who), w.outage("", e.who)
	}
	switch e.way {
	case bothWays:
		gate.Freeze()
	case requests:
		gate.FreezeOut()
	case replies:
		gate.FreezeIn()
	}
	time.Sleep(e.last)
	gate.Thaw()
	over()
}

func (w *simWorld) restartRouter(e simEvent, how func(*bubble.Router)) {
	over := w.outage("", e.who)
	began := time.Now()
	w.mu.Lock()
	r := w.mu.routers[e.who]
	delete(w.mu.routers, e.who)
	w.mu.Unlock()
	how(r.Router)
	_ = r.asked.Close()
	if err := r.Err(); err != nil && e.kind == stopRouter {
		w.failed(fmt.Errorf("router %s: %w", e.who, err))
	}
	time.Sleep(e.last - time.Since(began))
	w.startRouter(e.who)
	over()
}

// fromNode leaves the test's own requests alone.
func fromNode(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		return r.MaxWaitMillis == simNodeFetch
	case *kmsg.ProduceRequest:
		return r.TransactionID != nil
	case *kmsg.InitProducerIDRequest:
		return r.TransactionalID != nil
	}
	return true
}

var errDropped = errors.New("the broker breaks the connection")

// lose breaks the connection on which a request comes, before or after it is carried out. After: those of all nodes,
// since the broker does not know whose it is.
func (w *simWorld) lose(e simEvent) {
	left := e.count
	w.Kafka.ControlKey(int16(e.request), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.Kafka.KeepControl()
		if left == 0 || !fromNode(req) {
			return nil, nil, false
		}
		if left--; left == 0 {
			w.Kafka.DropControl()
		}
		if e.kind == dropRequest {
			return nil, errDropped, true
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.mu.nodes {
			if n.node != nil {
				n.node.Kafka().Reset()
			}
		}
		return nil, nil, false
	})
}

// moveLeaders gives each partition a leader that the seed chooses.
func (w *simWorld) moveLeaders(e simEvent) {
	r := simRand(w.plan.seed, uint64(e.at))
	topics := []string{"in"}
	for _, store := range w.plan.stores() {
		topics = append(topics, simChangelog(store))
	}
	for _, topic := range topics {
		for p := range w.plan.partitions {
			if err := w.Kafka.MoveTopicPartition(topic, p, r.Int32N(int32(w.plan.brokers))); err != nil {
				w.failed(err)
			}
		}
	}
}

// simCrashWithin is how long a node that should crash at a step may take to get there before it is killed anyway.
const simCrashWithin = 2 * time.Second

// armCrash makes a node crash at a step: it is cut off there and does nothing more.
func (w *simWorld) armCrash(n *simNode, e simEvent) (crashed chan struct{}) {
	crashed = make(chan struct{})
	n.steps.arm(e.step, e.nth, func() {
		n.steps.die()
		w.mu.Lock()
		bn := n.node
		w.mu.Unlock()
		if bn != nil {
			bn.Gate().Cut()
		}
		close(crashed)
	})
	return crashed
}

// crash cuts a node off at a step and starts it again.
func (w *simWorld) crash(e simEvent) {
	n := w.node(e.who)
	w.crashed(n, w.armCrash(n, e))
	w.restart(e, (*bubble.Node).Kill, nil)
}

// crashed waits until the node has come to the step, for a while.
func (w *simWorld) crashed(n *simNode, at chan struct{}) {
	limit := time.NewTimer(simCrashWithin)
	defer limit.Stop()
	select {
	case <-at:
	case <-limit.C:
		n.steps.arm("", 0, nil)
	}
}

// crashStart kills a node, cuts it off at a step of its start, and starts it again.
func (w *simWorld) crashStart(e simEvent) {
	first := e
	first.last = e.last / 2
	var at chan struct{}
	w.restart(first, (*bubble.Node).Kill, func(n *simNode) { at = w.armCrash(n, e) })
	w.crashed(w.node(e.who), at)
	e.wipe = false
	w.restart(e, (*bubble.Node).Kill, nil)
}
