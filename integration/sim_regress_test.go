//go:build synctests

package integration

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iqgate/iqgate/integration/bubble"
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
