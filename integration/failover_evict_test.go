//go:build synctests

package integration

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/integration/bubble"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Routers that were stopped for a while and took everybody for lost do not slow down the next eviction. The answer of a node
// that lived counted as an eviction, and its death ten seconds later was left to the session timeout.
func TestFalseAlarmDoesNotSlowTheNextEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		for _, r := range w.routers {
			r.Gate().Freeze()
		}
		time.Sleep(2 * time.Second)
		for _, r := range w.routers {
			r.Gate().Thaw()
		}
		time.Sleep(time.Second)
		tasks := w.tasksOf("a")
		w.nodes["a"].Kill()
		if gap := w.strongGap(tasks); gap > time.Second {
			t.Errorf("no active for %s", gap)
		}
		w.nodes["a"] = w.StartNode("a")
		w.settle()
	})
}

// The same with links: all routers lose a for two seconds, it answers, and then it dies.
func TestNodeThatLinksLostForAWhileIsReplacedAtOnceWhenItDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		for _, r := range []string{"r1", "r2"} {
			w.Link("a", r).Freeze()
		}
		time.Sleep(2 * time.Second)
		for _, r := range []string{"r1", "r2"} {
			w.Link("a", r).Thaw()
		}
		time.Sleep(time.Second)
		tasks := w.tasksOf("a")
		w.nodes["a"].Kill()
		if gap := w.strongGap(tasks); gap > time.Second {
			t.Errorf("no active for %s", gap)
		}
		w.nodes["a"] = w.StartNode("a")
		w.settle()
	})
}

// Nodes with different leases, as during a change of the setting: the survivor waits for the lost one's lease. It waited for
// its own, and both answered as the active.
func TestSurvivorWaitsForTheLostNodesLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: countByKey, Log: verboseLog(t), Routers: []string{"r1"}})
		defer c.Close()
		c.StartRouter("r1")
		a := c.StartNode("a", func(cfg *nodeConfig) {
			cfg.Lease, cfg.SessionTimeout, cfg.RebalanceTimeout = 5*time.Second, 15*time.Second, 10*time.Second
		})
		cl := c.Client()
		defer cl.Close()
		put := func() {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		put()
		c.Eventually(30*time.Second, "a runs", func() error {
			n, err := getCount(t.Context(), a.Query(), "k", strong())
			if err == nil && n != 1 {
				err = fmt.Errorf("%d", n)
			}
			return err
		})
		b := c.StartNode("b", func(cfg *nodeConfig) {
			cfg.Lease, cfg.SessionTimeout, cfg.RebalanceTimeout = time.Second, 15*time.Second, 10*time.Second
		})
		time.Sleep(20 * time.Second)
		if _, err := getCount(t.Context(), a.Query(), "k", strong()); err != nil {
			t.Fatal(err)
		}
		a.Gate().Freeze()
		defer a.Gate().Thaw()
		put()
		c.Eventually(30*time.Second, "b is active", func() error {
			got, err := getCount(t.Context(), b.Query(), "k", &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_STRONG})
			old, errOld := getCount(t.Context(), a.Query(), "k", &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_STRONG})
			if err == nil && errOld == nil {
				t.Fatalf("both answer as active: b %d, the frozen a %d", got, old)
			}
			return err
		})
	})
}

// Nodes that reach Kafka, but neither routers nor the other nodes, are evicted once and come back: to evict them again every
// few seconds helps no read.
func TestNodesThatAreCutOffFromAllButKafkaAreEvictedOnce(t *testing.T) {
	for _, who := range [][]string{{"a"}, {"a", "b"}} {
		t.Run(fmt.Sprint(who), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTrio(t)
				defer w.stop()
				links := func(change func(*bubble.Gate)) {
					for _, id := range who {
						for _, other := range []string{"r1", "r2", "b", "c"} {
							if other != id {
								change(w.Link(id, other))
							}
						}
					}
				}
				links((*bubble.Gate).Freeze)
				time.Sleep(15 * time.Second)
				before := w.generation("c")
				time.Sleep(time.Minute)
				if after := w.generation("c"); after != before {
					t.Errorf("the group went from generation %d to %d", before, after)
				}
				links((*bubble.Gate).Thaw)
				w.settle()
			})
		})
	}
}

// A node that sleeps, is replaced, wakes, and sleeps again a few seconds later is replaced as quickly the second time. It was
// taken for one that comes back unheard, and left to the session timeout.
func TestNodeThatSleepsAgainIsReplacedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		for range 3 {
			w.Eventually(10*time.Second, "a runs something", func() error {
				if len(w.tasksOf("a")) == 0 {
					return errors.New("it runs nothing")
				}
				return nil
			})
			time.Sleep(3 * time.Second)
			tasks := w.tasksOf("a")
			w.nodes["a"].Gate().Freeze()
			if gap := w.strongGap(tasks); gap > lease+1500*time.Millisecond {
				t.Errorf("no active for %s", gap)
			}
			time.Sleep(7 * time.Second)
			w.nodes["a"].Gate().Thaw()
		}
		w.settle()
	})
}

// A node that cannot reach Kafka has nobody to hand its tasks to, and does not wait for that.
func TestDrainWithoutKafkaDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrio(t)
		defer w.stop()
		w.nodes["a"].Kafka().Cut()
		time.Sleep(5 * time.Second)
		began := time.Now()
		w.nodes["a"].Stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		delete(w.nodes, "a")
	})
}

// Nodes that stop together hand to those that stay; when none stays there is nobody to wait for.
func TestNodesThatStopTogetherDoNotWaitForOneAnother(t *testing.T) {
	for _, who := range [][]string{{"a", "b"}, {"a", "b", "c"}} {
		t.Run(fmt.Sprint(who), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTrio(t)
				defer w.stop()
				began := time.Now()
				var stopping sync.WaitGroup
				for _, id := range who {
					stopping.Go(w.nodes[id].Stop)
				}
				stopping.Wait()
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %s", took)
				}
				for _, id := range who {
					w.nodes[id] = w.StartNode(id)
				}
				w.settle()
			})
		})
	}
}
