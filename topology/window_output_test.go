package topology_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/topology"
	"github.com/iqgate/iqgate/topology/topologytest"
)

// Windows of a key go where the key goes, in topics as in stores: the hash of the key with its window is another one. (Of
// three partitions bob's is 0, and that of his window 2; that of alice's session is 1.)
func TestS21WindowsGoToThePartitionOfTheirKey(t *testing.T) {
	c, err := topology.LoadYAML([]byte(`
application: app
sources: [{topic: t, format: raw}]
aggregates:
  - {store: win, source: t, count: true, window: {tumbling: 60s}, output: windows}
  - {store: sess, source: t, count: true, window: {session: 30s}, output: sessions}
  - {store: fnv, source: t, count: true, window: {session: 30s}, output: other, output_partitioner: fnv1a}
`))
	if err != nil {
		t.Fatal(err)
	}
	topo, err := c.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(topo, map[string]int32{"t": 3, "windows": 3, "sessions": 3, "other": 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"bob", "k0", "k2"} {
		if err := d.Put(topology.Record{Topic: "t", Key: []byte(key), Value: []byte("x"), Timestamp: eventTime}); err != nil {
			t.Fatal(err)
		}
	}
	var fnv []int32
	for _, key := range []string{"bob", "k0", "k2"} {
		fnv = append(fnv, partitioner.FNV1a().Partition([]byte(key), 3))
	}
	for topic, want := range map[string][]int32{"windows": {0, 2, 0}, "sessions": {0, 2, 0}, "other": fnv} {
		var got []int32
		for _, r := range d.Output(topic) {
			got = append(got, r.Partition)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: partitions %d, want %d", topic, got, want)
		}
	}
	for _, sub := range topo.Subtopologies() {
		for _, sink := range sub.Sinks {
			if name := sink.Partitioner.Name(); name != map[bool]string{true: "fnv1a", false: "murmur2"}[sink.Topic == "other"] {
				t.Errorf("%s is written by %s", sink.Topic, name)
			}
			keys := sink.Partitioner.Keys(topology.SessionKey([]byte("k2"), 1, 2), 3)
			if sink.Topic == "other" && !slices.Equal(keys, fnv[2:]) {
				t.Errorf("a session of k2 is looked up in %d, want %d", keys, fnv[2:])
			}
		}
	}
}

// A partitioner that spreads empty keys spreads their windows too.
func TestWindowsOfAnEmptyKeyAreSpreadWhereTheKeyIs(t *testing.T) {
	c := &topology.Config{
		Application: "app",
		Sources:     []topology.SourceConfig{{Topic: "t", Format: topology.FormatRaw}},
		Aggregates: []topology.AggregateConfig{{
			Store: "s", Source: "t", Op: topology.OpCount, Window: topology.Tumbling(time.Second),
			Output: topology.OutputConfig{Topic: "o", Partitioner: partitioner.NameConsistentRandom},
		}},
	}
	topo, err := c.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	by := topo.Subtopologies()[0].Sinks[0].Partitioner
	if _, err := partitioner.Route(by, "o", topology.WindowKey(nil, 1), nil, 3); !errors.Is(err, partitioner.ErrNoKey) {
		t.Errorf("an empty key's window: %v, want %v", err, partitioner.ErrNoKey)
	}
	if _, err := partitioner.Route(by, "o", topology.WindowKey([]byte("k"), 1), nil, 3); err != nil {
		t.Errorf("a key's window: %v", err)
	}
}
