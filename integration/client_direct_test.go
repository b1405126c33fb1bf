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

// directReads counts how the reads of one policy went.
type directReads struct {
	direct, routed, failed int
	detours                map[client.Detour]int
	first                  error
}

// TestNodeKilledUnderDirectReadsCostsNone: a client that routes by itself reads on while a node is killed and comes back, and
// while the router that it follows is killed. Whoever takes any replica, or one within a bound, gets an answer each
// time, within the bound, and nearly always without a router.
func TestNodeKilledUnderDirectReadsCostsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, bound = 4, 10 * time.Second
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
			if err := bubble.Produce(t.Context(), cl, "in", keys[i], "x"); err != nil {
				t.Fatal(err)
			}
		}
		direct, err := client.New([]string{"passthrough:///r1:7000", "passthrough:///r2:7000"}, client.WithDirect(),
			client.WithTargetsInOrder(), client.WithDialOptions(grpc.WithContextDialer(c.Dial)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = direct.Close() }()
		if err := direct.WaitForView(t.Context()); err != nil {
			t.Fatal(err)
		}
		standbys := func() error {
			lags, err := direct.Lags(t.Context(), "counts")
			if err == nil && len(lags) != 2*partitions {
				err = fmt.Errorf("%d replicas", len(lags))
			}
			return err
		}
		c.Eventually(time.Minute, "each partition has its standby", standbys)
		c.Eventually(time.Minute, "each key is read at each node", func() error {
			for _, key := range keys {
				if r, err := direct.Get(t.Context(), "counts", []byte(key), client.MaxStaleness(time.Second)); err != nil || !r.Found {
					return fmt.Errorf("%s: found %t, %w", key, r.Found, err)
				}
			}
			return nil
		})

		stop := make(chan struct{})
		var reading sync.WaitGroup
		read := func(policy client.ReadOption, within time.Duration) *directReads {
			n := &directReads{detours: map[client.Detour]int{}}
			reading.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
					}
					r, err := direct.Get(t.Context(), "counts", []byte(keys[i%len(keys)]), policy)
					if err == nil && (!r.Found || r.TimeLag > within) {
						err = fmt.Errorf("%s: found %t, %s behind", keys[i%len(keys)], r.Found, r.TimeLag)
					}
					switch {
					case err != nil:
						if n.failed++; n.first == nil {
							n.first = err
						}
					case r.Way == client.WayDirect:
						n.direct++
					default:
						n.routed++
						n.detours[r.Detour]++
					}
				}
			})
			return n
		}
		all := map[string]*directReads{
			"any": read(client.Any(), client.UnknownTimeLag), "max_staleness": read(client.MaxStaleness(bound), bound),
		}
		time.Sleep(time.Second)
		nodes["a"].Kill()
		time.Sleep(3 * time.Second)
		c.StartNode("a")
		time.Sleep(4 * time.Second)
		r1.Kill()
		time.Sleep(3 * time.Second)
		close(stop)
		reading.Wait()
		for name, n := range all {
			t.Logf("%s: %d direct, %d routed %v, %d failed", name, n.direct, n.routed, n.detours, n.failed)
			if n.failed > 0 {
				t.Errorf("%s: %d reads failed, first %v", name, n.failed, n.first)
			}
			if n.direct < 1500 || n.routed > n.direct/20 {
				t.Errorf("%s: %d reads went directly, %d through a router: %v", name, n.direct, n.routed, n.detours)
			}
		}
	})
}
