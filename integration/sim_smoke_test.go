//go:build synctests

package integration

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/integration/bubble"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/topology"
)

// topologyOf builds a topology from its YAML form.
func topologyOf(text string) func() *topology.Topology {
	return func() *topology.Topology {
		cfg, err := topology.LoadYAML([]byte(text))
		if err != nil {
			panic(err)
		}
		t, err := cfg.Build(nil)
		if err != nil {
			panic(err)
		}
		return t
	}
}

// countByKey counts the records of each key of the topic "in" in the store "counts".
var countByKey = topologyOf(`
application: app
sources:
  - topic: in
    format: raw
    value_serde: string
aggregates:
  - store: counts
    source: in
    count: true
`)

// countByField counts the rows of the topic "in" by their first column, through a repartition topic.
var countByField = topologyOf(`
application: app
sources:
  - topic: in
    format: csv
    columns: [group, id]
aggregates:
  - store: counts
    source: in
    group_by: group
    count: true
    output: out
`)

func verboseLog(t *testing.T) io.Writer {
	t.Helper()
	if testing.Verbose() {
		return os.Stderr
	}
	return nil
}

// strong is the strong policy, with time for a lease that is just being taken.
func strong() *iqv1.ReadPolicy {
	return &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_STRONG, Wait: durationpb.New(time.Second)}
}

func getCount(ctx context.Context, q iqv1.QueryServiceClient, key string, p *iqv1.ReadPolicy) (int64, error) {
	resp, err := q.Get(ctx, &iqv1.GetRequest{Store: "counts", Key: []byte(key), Policy: p})
	if err != nil {
		return 0, err
	}
	if !resp.GetFound() {
		return 0, nil
	}
	if len(resp.GetValue()) != 8 {
		return 0, errors.New("value is no int64: " + resp.String())
	}
	return int64(binary.BigEndian.Uint64(resp.GetValue())), nil
}

func TestOneNodeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 3}, Topology: countByKey, Log: verboseLog(t)})
		defer c.Close()
		n := c.StartNode("a")
		cl := c.Client()
		defer cl.Close()
		ctx := t.Context()
		for i := range 30 {
			if err := bubble.Produce(ctx, cl, "in", fmt.Sprintf("k%d", i%3), "x"); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			c.Eventually(30*time.Second, "count of 10", func() error {
				got, err := getCount(ctx, n.Query(), fmt.Sprintf("k%d", i), strong())
				if err == nil && got != 10 {
					err = fmt.Errorf("k%d is %d", i, got)
				}
				return err
			})
		}
	})
}

func TestKilledNodesLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 4, "out": 2}, Topology: countByField, Log: verboseLog(t)})
		defer c.Close()
		nodes := map[string]*bubble.Node{}
		for _, id := range []string{"a", "b", "c"} {
			nodes[id] = c.StartNode(id)
		}
		cl := c.Client()
		defer cl.Close()
		ctx := t.Context()
		const groups, total = 7, 700
		for i := range total {
			if err := bubble.Produce(ctx, cl, "in", fmt.Sprint(i), fmt.Sprintf("g%d,%d", i%groups, i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			switch i {
			case 150:
				nodes["b"].Kill()
			case 300:
				nodes["b"] = c.StartNode("b")
			case 450:
				nodes["a"].Stop()
			case 500:
				nodes["a"] = c.StartNode("a")
			}
		}
		for g := range groups {
			c.Eventually(60*time.Second, "exact count", func() error {
				var errs []error
				for _, n := range nodes {
					got, err := getCount(ctx, n.Query(), fmt.Sprintf("g%d", g), strong())
					if err == nil && got == total/groups {
						return nil
					}
					if err == nil {
						err = fmt.Errorf("g%d is %d at %s", g, got, n.ID)
					}
					errs = append(errs, err)
				}
				return errors.Join(errs...)
			})
		}
	})
}
