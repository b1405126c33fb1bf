//go:build synctests

package integration

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iqgate/iqgate/integration/bubble"
)

// errCrash stands for the end of the process at a step of the commit.
var errCrash = errors.New("crash")

// A crasher makes a node crash at the n-th time that a step is reached: it cuts the node's network, so that nothing that
// follows reaches Kafka, and fails the step.
type crasher struct {
	step string
	n    int

	mu   sync.Mutex
	hit  bool
	gate *bubble.Gate
}

func (c *crasher) at(step string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hit && c.gate != nil {
		return errCrash // a dead node does nothing more
	}
	if c.hit || step != c.step {
		return nil
	}
	if c.n--; c.n > 0 {
		return nil
	}
	c.hit = true
	if c.gate != nil {
		c.gate.Cut()
	}
	return errCrash
}

func (c *crasher) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hit
}

// Whatever the step of the commit at which a node dies, sums stay exact: with a transaction that is aborted, with one
// whose end nobody heard of, and with one that is applied in part. The node comes back on its state, or another takes over.
func TestCrashAtEachCommitStepLosesNothing(t *testing.T) {
	for _, step := range []string{"produce", "flush", "offsets", "end", "sent", "apply", "applied"} {
		for _, dies := range []bool{false, true} { // the worker's transaction alone, or the whole node
			t.Run(fmt.Sprintf("step=%s/dies=%v", step, dies), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crashAt(t, step, dies) })
			})
		}
	}
}

func crashAt(t *testing.T, step string, dies bool) {
	t.Helper()
	c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 3, "out": 2}, Topology: countByField, Log: verboseLog(t)})
	defer c.Close()
	crash := &crasher{step: step, n: 7}
	a := c.StartNode("a", func(cfg *nodeConfig) { cfg.Step = crash.at })
	if dies {
		crash.mu.Lock()
		crash.gate = a.Gate()
		crash.mu.Unlock()
	}
	b := c.StartNode("b")
	nodes := map[string]*bubble.Node{"a": a, "b": b}
	cl := c.Client()
	defer cl.Close()
	const groups, total = 5, 500
	restarted := false
	for i := range total {
		if err := bubble.Produce(t.Context(), cl, "in", fmt.Sprint(i), fmt.Sprintf("g%d,%d", i%groups, i)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Millisecond)
		if dies && !restarted && crash.done() {
			restarted = true
			a.Kill()
			nodes["a"] = c.StartNode("a")
		}
	}
	if !crash.done() {
		t.Fatalf("step %s was never reached %d times", step, 7)
	}
	if dies && !restarted {
		t.Fatal("the node was not started again")
	}
	for g := range groups {
		key := fmt.Sprintf("g%d", g)
		c.Eventually(time.Minute, key, func() error {
			var errs []error
			for _, n := range nodes {
				got, err := getCount(t.Context(), n.Query(), key, strong())
				if err == nil && got == total/groups {
					return nil
				}
				if err == nil && got > total/groups {
					t.Fatalf("%s is %d: doubled", key, got)
				}
				errs = append(errs, err, fmt.Errorf("%s is %d at %s", key, got, n.ID))
			}
			return errors.Join(errs...)
		})
	}
}
