//go:build synctests

package integration

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/bubble"
)

// TestKillsUnderLookupsOverStreamsCostNone: many readers share one stream to a router, whose reads share one stream to each node.
// Nodes are killed under them, one after the other, and then the router. Each read gets its answer, and that of its own key:
// every key has another value.
func TestKillsUnderLookupsOverStreamsCostNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, readers = 4, 20
		c := bubble.New(t, bubble.Options{
			Topics: map[string]int32{"in": partitions}, Topology: countByKey, Routers: []string{"r1", "r2"}, Log: verboseLog(t),
		})
		defer c.Close()
		r1 := c.StartRouter("r1")
		c.StartRouter("r2")
		nodes := map[string]*bubble.Node{}
		for _, id := range []string{"a", "b", "c"} {
			nodes[id] = c.StartNode(id)
		}
		cl := c.Client()
		defer cl.Close()
		keys := make([]string, 20)
		for i := range keys {
			keys[i] = fmt.Sprint("k", i)
			for range i + 1 {
				if err := bubble.Produce(t.Context(), cl, "in", keys[i], "x"); err != nil {
					t.Fatal(err)
				}
			}
		}
		targets := []string{"passthrough:///r1:7000", "passthrough:///r2:7000"}
		dial := client.WithDialOptions(grpc.WithContextDialer(c.Dial))
		lookups, err := client.New(targets, client.WithLookups(), client.WithTargetsInOrder(), dial)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = lookups.Close() }()
		c.Eventually(time.Minute, "each partition has its standby", func() error {
			lags, err := lookups.Lags(t.Context(), "counts")
			if err == nil && len(lags) != 2*partitions {
				err = fmt.Errorf("%d replicas", len(lags))
			}
			return err
		})
		want := map[string]string{}
		c.Eventually(time.Minute, "every copy has all that was counted", func() error {
			values := map[string]bool{}
			for _, key := range keys {
				r, err := lookups.Get(t.Context(), "counts", []byte(key), client.MaxOffsetLag(0))
				if err != nil || !r.Found {
					return fmt.Errorf("%s: found %t, %w", key, r.Found, err)
				}
				want[key] = string(r.Value)
				values[want[key]] = true
			}
			lags, err := lookups.Lags(t.Context(), "counts")
			for _, lag := range lags {
				if lag.GetOffsetLag() != 0 {
					return fmt.Errorf("%s lags", lag)
				}
			}
			if len(values) != len(keys) {
				err = fmt.Errorf("%d values of %d keys", len(values), len(keys))
			}
			return err
		})

		stop := make(chan struct{})
		var mu sync.Mutex
		answered, failed := 0, 0
		var reading sync.WaitGroup
		for n := range readers {
			reading.Go(func() {
				for i := n; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(10 * time.Millisecond):
					}
					key := keys[i%len(keys)]
					r, err := lookups.Get(t.Context(), "counts", []byte(key), client.Any())
					mu.Lock()
					answered++
					if err != nil || string(r.Value) != want[key] {
						if failed++; failed < 10 {
							t.Errorf("%s: %q, %v, want %q", key, r.Value, err, want[key])
						}
					}
					mu.Unlock()
				}
			})
		}
		for _, id := range []string{"a", "b", "c"} {
			time.Sleep(time.Second)
			nodes[id].Kill()
			time.Sleep(3 * time.Second)
			nodes[id] = c.StartNode(id)
			time.Sleep(4 * time.Second)
		}
		r1.Kill()
		time.Sleep(3 * time.Second)
		close(stop)
		reading.Wait()
		if failed > 0 || answered < readers*1000 {
			t.Errorf("%d of %d reads failed", failed, answered)
		}
	})
}
