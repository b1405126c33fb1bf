//go:build synctests

package integration

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/iqgate/iqgate/integration/bubble"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// While a transaction's coordinator refuses connections the node tries again with pauses. The client dialed it in a hot
// loop when it added partitions to the transaction: a whole core in a process, and for ever where no time passes.
func TestRefusedCoordinatorIsNotDialedInAHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: countByKey, Log: verboseLog(t)})
		defer c.Close()
		var gate atomic.Pointer[bubble.Gate]
		var commits atomic.Int64
		n := c.StartNode("a", func(cfg *nodeConfig) {
			cfg.Step = func(step string) error {
				if step == "produce" && commits.Add(1) == 3 {
					gate.Load().Cut() // it panics when dialed in a hot loop
				}
				return nil
			}
		})
		gate.Store(n.Gate())
		cl := c.Client()
		defer cl.Close()
		c.Eventually(20*time.Second, "the task runs", func() error {
			_, err := getCount(t.Context(), n.Query(), "k", strong())
			return err
		})
		const total = 100
		for range total {
			if err := bubble.Produce(t.Context(), cl, "in", "k", "x"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		n.Gate().Mend()
		c.Eventually(30*time.Second, "exact count", func() error {
			got, err := getCount(t.Context(), n.Query(), "k", strong())
			if err == nil && got != total {
				err = fmt.Errorf("count is %d", got)
			}
			return err
		})
		if commits.Load() < 3 {
			t.Errorf("only %d commits: the coordinator was never refused", commits.Load())
		}
	})
}

// A node that is back on its state tells its stores as soon as it knows them, so that a router which is back too answers
// from it while the group still waits for others. It told them with its first assignment, and reads failed until then.
func TestRestartedNodeServesBeforeTheGroupHasFormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 1}, Topology: countByKey, Log: verboseLog(t), Routers: []string{"r"}})
		defer c.Close()
		router := c.StartRouter("r")
		a, b := c.StartNode("a"), c.StartNode("b")
		cl := c.Client()
		defer cl.Close()
		if err := bubble.Produce(t.Context(), cl, "in", "k", "x"); err != nil {
			t.Fatal(err)
		}
		one := func(q iqv1.QueryServiceClient, p *iqv1.ReadPolicy) func() error {
			return func() error {
				got, err := getCount(t.Context(), q, "k", p)
				if err == nil && got != 1 {
					err = fmt.Errorf("count is %d", got)
				}
				return err
			}
		}
		c.Eventually(20*time.Second, "a has it", one(a.Query(), maxLag(0)))
		c.Eventually(20*time.Second, "b has it", one(b.Query(), maxLag(0)))
		var all sync.WaitGroup
		for _, end := range []func(){a.Kill, b.Kill, router.Kill} {
			all.Go(end)
		}
		all.Wait()
		router = c.StartRouter("r")
		c.StartNode("a").Gate().Slow(3 * time.Millisecond) // so that it reaches the router before it knows its topics
		c.Eventually(time.Second, "read through the router", one(router.Query(), anyReplica()))
		resp, err := router.Metadata().ListInstances(t.Context(), &iqv1.ListInstancesRequest{})
		if err != nil || len(resp.GetInstances()) != 1 || resp.GetInstances()[0].GetGeneration() > 0 {
			t.Errorf("the group has formed already, which is not what is tested: %v, %v", resp, err)
		}
	})
}

// A node reports replicas whose stores are not open yet like others. They had position -1, which a router refuses: it
// ended the stream, and knew nothing of a node that was starting.
func TestStartingNodeIsNotRefusedByRouters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 3}, Topology: countByKey, Log: &log, Routers: []string{"r"}})
		defer c.Close()
		router := c.StartRouter("r")
		c.StartNode("a")
		c.StartNode("b")
		c.Eventually(20*time.Second, "read through the router", func() error {
			_, err := getCount(t.Context(), router.Query(), "k", strong())
			return err
		})
		if i := strings.Index(log.String(), "report refused"); i >= 0 {
			t.Errorf("%.300s", log.String()[i:])
		}
	})
}

// A broker that says of a topic only that it has no leader now says nothing of its partitions. A node took that for a topic
// of no partitions: one that started ended with it, and one that ran refused all reads.
func TestTopicWithoutALeaderIsNoTopicOfNoPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 2}, Topology: countByKey, Log: verboseLog(t)})
		defer c.Close()
		leaderless := kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.LeaderNotAvailable, Count: -1}
		atStart := c.Kafka.Fault(leaderless)
		n := c.StartNode("a")
		time.Sleep(time.Second)
		atStart.Remove()
		read := func() error {
			_, err := getCount(t.Context(), n.Query(), "k", anyReplica())
			return err
		}
		c.Eventually(20*time.Second, "the node has started", read)
		later := c.Kafka.Fault(leaderless)
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			if err := read(); err != nil {
				t.Errorf("while the topic has no leader: %v", err)
				break
			}
		}
		if later.Hits() == 0 {
			t.Error("the node did not look at its topics meanwhile")
		}
		later.Remove()
	})
}

// A safeBuffer is a buffer for many writers.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
