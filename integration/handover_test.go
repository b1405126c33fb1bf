//go:build synctests

package integration

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/integration/bubble"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// A holder stops a node's worker at a step of its commit.
type holder struct {
	mu   sync.Mutex
	step string
	free chan struct{}
	held chan struct{} // closed when the worker stands
}

func (h *holder) hold(step string) (held <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.step, h.free, h.held = step, make(chan struct{}), make(chan struct{})
	return h.held
}

func (h *holder) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.free != nil {
		close(h.free)
		h.free, h.step = nil, ""
	}
}

// at is the node's Config.Step.
func (h *holder) at(step string) error {
	h.mu.Lock()
	free, held := h.free, h.held
	stop := h.step == step
	if stop {
		h.step = ""
		close(held)
	}
	h.mu.Unlock()
	if stop {
		<-free
	}
	return nil
}

// A task that the group has just given to a node is the node's, even when the next rebalance begins before its worker
// has looked: it tells the task as owned when it joins again. It did not, so the leader gave the task to another at once,
// while the worker began it under the generation before and committed under the next one.
func TestTaskJustGivenIsHandedOverBeforeAnotherGetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 3}, Topology: countByKey, Log: verboseLog(t)})
		cl := c.Client()
		holders := map[string]*holder{"a": {}, "b": {}, "c": {}}
		defer func() {
			for _, h := range holders {
				h.release()
			}
			cl.Close()
			c.Close()
		}()
		keys := make(map[int32]string)
		counts := make(map[string]int64)
		write := func(key string) int32 {
			t.Helper()
			rec := &kgo.Record{Topic: "in", Key: []byte(key), Value: []byte("x")}
			if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
			counts[key]++
			return rec.Partition
		}
		for i := 0; len(keys) < 3; i++ {
			key := fmt.Sprint("k", i)
			keys[write(key)] = key
		}
		nodes := make(map[string]*bubble.Node)
		running := func(id string, want int) (ps []int32) {
			t.Helper()
			c.Eventually(time.Minute, fmt.Sprintf("%s runs %d tasks", id, want), func() (err error) {
				ps, err = runningActives(t, nodes[id])
				if err == nil && len(ps) != want {
					err = fmt.Errorf("active of %v", ps)
				}
				return err
			})
			return ps
		}
		for id := range holders {
			nodes[id] = c.StartNode(id, func(cfg *nodeConfig) { cfg.Step = holders[id].at })
		}
		moving := keys[running("b", 1)[0]]
		own := map[string]string{"a": keys[running("a", 1)[0]], "c": keys[running("c", 1)[0]]}
		time.Sleep(time.Second)

		// The workers of a and c stand when b leaves, so that neither looks at what it is given.
		for id, key := range own {
			held := holders[id].hold("produce")
			write(key)
			<-held
		}
		nodes["b"].Stop()
		delete(nodes, "b")
		x := ""
		c.Eventually(20*time.Second, "b's task is given", func() error {
			resp, err := nodes["a"].Metadata().ListInstances(t.Context(), &iqv1.ListInstancesRequest{})
			for _, in := range resp.GetInstances() {
				if len(in.GetActivePartitions()) == 2 {
					x = in.GetNode()
					return nil
				}
			}
			return fmt.Errorf("%v, %w", resp, err)
		})
		y := map[string]string{"a": "c", "c": "a"}[x]
		holders[y].release()
		time.Sleep(100 * time.Millisecond)

		// d joins, and the group waits for y, which is silent. x has joined again when its worker goes on; then b comes back.
		nodes[y].Kafka().Freeze()
		nodes["d"] = c.StartNode("d")
		time.Sleep(time.Second)
		holders[x].release()
		running(x, 2)
		nodes["b"] = c.StartNode("b")
		time.Sleep(time.Second)
		held := holders[x].hold("offsets")
		write(moving)
		<-held
		nodes[y].Kafka().Thaw() // the group forms
		c.Eventually(3*time.Second, "b has an assignment", func() error {
			_, err := nodes["b"].Metadata().ListInstances(t.Context(), &iqv1.ListInstancesRequest{})
			return err
		})
		time.Sleep(50 * time.Millisecond) // enough to begin what it is given
		holders[x].release()

		time.Sleep(30 * time.Second)
		strongly := make(map[string]bool)
		for _, key := range keys {
			for id, n := range nodes {
				if got, err := getCount(t.Context(), n.Query(), key, maxLag(0)); err == nil && got != counts[key] {
					t.Errorf("%s at %s is %d, not %d", key, id, got, counts[key])
				}
				got, err := getCount(t.Context(), n.Query(), key, strong())
				strongly[key] = strongly[key] || err == nil && got == counts[key]
			}
			if !strongly[key] {
				t.Errorf("nobody is the active of %s", key)
			}
		}
	})
}

// runningActives are the partitions of which a node is the running active.
func runningActives(t *testing.T, n *bubble.Node) (ps []int32, err error) {
	t.Helper()
	resp, err := n.Metadata().ListLags(t.Context(), &iqv1.ListLagsRequest{})
	for _, r := range resp.GetReplicas() {
		if r.GetRole() == iqv1.Role_ROLE_ACTIVE && r.GetState() == iqv1.ReplicaState_REPLICA_STATE_RUNNING {
			ps = append(ps, r.GetPartition())
		}
	}
	return ps, err
}
