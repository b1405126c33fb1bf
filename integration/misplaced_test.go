//go:build synctests

package integration

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/node"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// keysOf are n keys that murmur2 puts into a partition of three.
func keysOf(partition int32, n int) []string {
	var keys []string
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprintf("key-%d", i); partitioner.Murmur2().Partition([]byte(key), 3) == partition {
			keys = append(keys, key)
		}
	}
	return keys
}

// Records that another partitioner has put elsewhere than the store's are counted with the first example, at the node, at
// the router and in the log, and a lookup does not find them. A transaction that is aborted and done again counts once.
func TestMisplacedRecordsAreCountedOnceWithTheFirstExample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &syncBuffer{}
		var failures atomic.Int32
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 3}, Topology: table, Routers: []string{"r"}, Log: log})
		f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
		f.adm = kadm.NewClient(f.cl)
		defer f.close()
		r := c.StartRouter("r")
		n := c.StartNode("a", func(cfg *node.Config) {
			cfg.Step = func(step string) error {
				if step == "end" && failures.Add(1) == 1 {
					return errors.New("injected before EndTxn")
				}
				return nil
			}
		})
		right, wrong := keysOf(1, 3), keysOf(2, 2)
		long := wrong[1] + strings.Repeat("x", 100)
		for partitioner.Murmur2().Partition([]byte(long), 3) != 2 {
			long += "x"
		}
		f.input(
			&kgo.Record{Partition: 1, Key: []byte(right[0]), Value: []byte("v")},
			&kgo.Record{Partition: 1, Key: nil, Value: []byte("no key")},
			&kgo.Record{Partition: 1, Key: []byte(wrong[0]), Value: []byte("v")},
			&kgo.Record{Partition: 1, Key: []byte(right[1]), Value: []byte("v")},
			&kgo.Record{Partition: 1, Key: []byte(wrong[0]), Value: nil},
			&kgo.Record{Partition: 1, Key: []byte(long), Value: []byte("v")},
			&kgo.Record{Partition: 1, Key: []byte(right[2]), Value: []byte("last")},
			&kgo.Record{Partition: 0, Key: []byte(long), Value: []byte("v")},
		)
		f.settled(n, right[2], "last")
		want := []*iqv1.Misplaced{
			{Store: "table", Topic: "in", Partition: 0, Records: 1, FirstOffset: 0, FirstKey: []byte(long[:64]), Expected: []int32{2}},
			{Store: "table", Topic: "in", Partition: 1, Records: 3, FirstOffset: 2, FirstKey: []byte(wrong[0]), Expected: []int32{2}},
		}
		for who, m := range map[string]iqv1.MetadataServiceClient{"node": n.Metadata(), "router": r.Metadata()} {
			f.Eventually(10*time.Second, "the "+who+" tells of them", func() error {
				resp, err := m.ListInstances(f.ctx, &iqv1.ListInstancesRequest{})
				if err != nil {
					return err
				}
				if got := resp.GetInstances()[0].GetMisplaced(); fmt.Sprint(got) != fmt.Sprint(want) {
					return fmt.Errorf("%v\nwant %v", got, want)
				}
				return nil
			})
		}
		if failures.Load() < 2 {
			t.Fatal("no transaction was aborted")
		}
		if got := log.lines("level=WARN", "lookups do not find them", "store=table", "topic=in", "expected_partitions=[2]"); got != 1 {
			t.Errorf("%d lines tell of them:\n%s", got, log.text())
		}
		f.expect(n, strong(), right[0], "v", long, "absent")
	})
}

// Rows whose key is a field pass through a repartition topic: how the topic itself is partitioned concerns no lookup.
func TestRecordsThatGetAnotherKeyAreNotMisplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topics: map[string]int32{"in": 3, "out": 1}, Topology: countByField, Log: verboseLog(t)})
		f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))}
		f.adm = kadm.NewClient(f.cl)
		defer f.close()
		n := c.StartNode("a")
		for p := range int32(3) {
			for i := range 10 {
				f.input(&kgo.Record{Partition: p, Key: []byte("x"), Value: fmt.Appendf(nil, "g%d,1", i)})
			}
		}
		for i := range 10 {
			f.Eventually(30*time.Second, "all are counted", func() error {
				got, err := getCount(f.ctx, n.Query(), fmt.Sprintf("g%d", i), strong())
				if err == nil && got != 3 {
					err = fmt.Errorf("count is %d", got)
				}
				return err
			})
		}
		resp, err := n.Metadata().ListInstances(f.ctx, &iqv1.ListInstancesRequest{})
		if err != nil || len(resp.GetInstances()[0].GetMisplaced()) != 0 {
			t.Errorf("%v, %v", resp, err)
		}
	})
}
