//go:build synctests

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iqgate/iqgate/integration/bubble"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/topology"
)

func countTopology() *topology.Topology {
	cfg, err := topology.LoadYAML([]byte(`
application: app
sources:
  - topic: in
    format: raw
    value_serde: string
aggregates:
  - store: counts
    source: in
    count: true
`))
	if err != nil {
		panic(err)
	}
	t, err := cfg.Build(nil)
	if err != nil {
		panic(err)
	}
	return t
}

func TestOneNodeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := bubble.Options{Topics: map[string]int32{"in": 3}, Topology: countTopology}
		if testing.Verbose() {
			o.Log = os.Stderr
		}
		c := bubble.New(t, o)
		defer c.Close()
		n := c.StartNode("a")
		cl := c.Client()
		defer cl.Close()
		ctx := context.Background()
		for i := range 30 {
			if err := bubble.Produce(ctx, cl, "in", fmt.Sprintf("k%d", i%3), "x"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			c.Eventually(30*time.Second, "count of 10", func() error {
				resp, err := n.Query().Get(ctx, &iqv1.GetRequest{Store: "counts", Key: fmt.Appendf(nil, "k%d", i), Policy: &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_STRONG}})
				if err != nil {
					return err
				}
				if string(resp.GetValue()) != "\x00\x00\x00\x00\x00\x00\x00\x0a" {
					return errors.New(resp.String())
				}
				t.Log(resp)
				return nil
			})
		}
	})
}
