package topologytest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/partitioner"
	"github.com/iqgate/iqgate/topology"
)

func keep(ctx topology.Context, r topology.Record) error {
	if err := ctx.Store("s").Put(r.Key, r.Value, r.Timestamp); err != nil {
		return err
	}
	ctx.Forward(r)
	return nil
}

func build(t *testing.T, b *topology.Builder) *topology.Topology {
	t.Helper()
	topo, err := b.Build("app")
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// Records go through the repartition topic, and out, to every partition that a multicast partitioner names.
func TestS28MulticastReachesEachChosenPartition(t *testing.T) {
	multicast := partitioner.Custom("multicast", nil, func(_ string, key, _ []byte, _ int32) partitioner.Choice {
		switch kind, _, _ := strings.Cut(string(key), "-"); kind {
		case "all":
			return partitioner.All()
		case "pair":
			return partitioner.Partitions(0, 2)
		case "drop":
			return partitioner.Drop()
		case "bad":
			return partitioner.Partitions(3)
		}
		return partitioner.Default()
	})
	registry, err := partitioner.NewRegistry(multicast)
	if err != nil {
		t.Fatal(err)
	}
	topo := build(t, topology.New().
		Source("in", "t").
		Repartition("re", "re", topology.RepartitionOptions{Partitioner: multicast, Partitions: 3}, "in").
		Processor("p", func() topology.Processor { return topology.ProcessorFunc(keep) }, "re").
		Store(topology.StoreSpec{Name: "s"}, "p").
		Sink("direct", "o", multicast, "in"))
	d, err := New(topo, map[string]int32{"t": 1, "o": 3})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][]int32{"all-1": {0, 1, 2}, "pair-1": {0, 2}, "drop-1": nil, "k0": {2}} {
		if err := d.Put(topology.Record{Topic: "t", Key: []byte(key), Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
		var got, kept []int32
		for _, r := range d.Output("o") {
			got = append(got, r.Partition)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s was written to %v, want %v", key, got, want)
		}
		for p := range int32(3) {
			if _, _, found, _ := d.store("s", p).Get([]byte(key)); found {
				kept = append(kept, p)
			}
		}
		if !slices.Equal(kept, want) {
			t.Errorf("%s is kept in %v, want %v", key, kept, want)
		}
		value, found, err := d.Get("s", []byte(key), registry)
		if err != nil || found != (want != nil) || found && string(value) != "v" {
			t.Errorf("a lookup of %s gives %q, %v, %v", key, value, found, err)
		}
	}
	err = d.Put(topology.Record{Topic: "t", Key: []byte("bad-1"), Value: []byte("v")})
	var r *partitioner.RangeError
	if !errors.As(err, &r) || r.Partition != 3 || r.Count != 3 || len(d.Output("o")) > 0 {
		t.Errorf("a partition that does not exist gives %v", err)
	}
	if _, _, err := d.Get("s", []byte("k0"), nil); err == nil || !strings.Contains(err.Error(), `"multicast"`) {
		t.Errorf("a lookup without the partitioner gives %v", err)
	}
}

func TestRecordsWithoutKeyAreSpreadInTurn(t *testing.T) {
	topo := build(t, topology.New().Source("in", "t").Sink("out", "o", nil, "in"))
	d, err := New(topo, map[string]int32{"o": 3})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := d.Put(topology.Record{Topic: "t", Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
	}
	var got []int32
	for _, r := range d.Output("o") {
		got = append(got, r.Partition)
	}
	if !slices.Equal(got, []int32{0, 1, 2, 0}) {
		t.Errorf("went to %v, want 0 1 2 0", got)
	}
}

func TestDriverNamesWhatItDoesNotKnow(t *testing.T) {
	topo := build(t, topology.New().Source("in", "t").Sink("out", "o", nil, "in"))
	if _, err := New(topo, map[string]int32{"x": 1}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("partitions of an unknown topic give %v", err)
	}
	d, err := New(topo, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Put(topology.Record{Topic: "x"}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("a record of an unknown topic gives %v", err)
	}
	if err := d.PutAt(topology.Record{Topic: "t", Partition: 1}); err == nil || !strings.Contains(err.Error(), "no partition 1; it has 1") {
		t.Errorf("a record of an unknown partition gives %v", err)
	}
	if _, err := d.All("x"); err == nil {
		t.Error("an unknown store is shown")
	}
	if _, _, err := d.Get("x", nil, nil); err == nil {
		t.Error("an unknown store is looked up")
	}
}

func TestStoreRangeIncludesBothEndsAndStandsWritesInBetween(t *testing.T) {
	s := NewStore()
	for _, key := range []string{"", "a", "b", "c", "\xff"} {
		if err := s.Put([]byte(key), []byte(key), 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		from, to []byte
		reverse  bool
		want     []string
	}{
		{nil, nil, false, []string{"", "a", "b", "c", "\xff"}},
		{nil, nil, true, []string{"\xff", "c", "b", "a", ""}},
		{[]byte("a"), []byte("b"), false, []string{"a", "b"}},
		{[]byte("b"), nil, true, []string{"\xff", "c", "b"}},
		{[]byte{}, []byte{}, false, []string{""}},
		{[]byte("b"), []byte("a"), false, nil},
	} {
		var got []string
		for e, err := range s.Range(c.from, c.to, c.reverse) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(e.Key))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("from %q to %q, reverse %v: %q, want %q", c.from, c.to, c.reverse, got, c.want)
		}
	}
	for e, err := range s.Range(nil, nil, false) {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(e.Key, nil, 1); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete([]byte("c"), 1); err != nil {
			t.Fatal(err)
		}
	}
	if s.Len() != 0 {
		t.Errorf("%d keys are left", s.Len())
	}
}
