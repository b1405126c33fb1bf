package cluster

import (
	"slices"
	"testing"
)

func TestBusiestNodeIsTheOneWithTheMostActives(t *testing.T) {
	p := func(n int32) Partition { return Partition{"by-dest", n} }
	c := &Cluster{Actives: map[Partition]string{p(0): "node-2", p(1): "node-1", p(2): "node-2", p(3): "node-1", p(4): "node-3"}}
	name, of := c.Busiest()
	if name != "node-1" || !slices.Equal(of, []Partition{p(1), p(3)}) {
		t.Errorf("%s with %v, want node-1 with 1 and 3: of equal ones the first by name", name, of)
	}
	c.Actives[p(5)] = "node-3"
	c.Actives[p(6)] = "node-3"
	if name, of := c.Busiest(); name != "node-3" || len(of) != 3 {
		t.Errorf("%s with %v, want node-3 with three", name, of)
	}
	if name, of := (&Cluster{}).Busiest(); name != "" || len(of) != 0 {
		t.Errorf("%s with %v of nobody", name, of)
	}
}
