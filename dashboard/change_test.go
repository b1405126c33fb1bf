package dashboard

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/iqgate/iqgate/metadata"
)

// apply does what a reader does with a change.
func apply(p Page, c *Change) *Page {
	if c.Application != nil {
		p.Application = *c.Application
	}
	p.Nodes = slices.DeleteFunc(slices.Clone(p.Nodes), func(n Node) bool { return slices.Contains(c.Gone, n.ID) })
	for _, n := range c.Nodes {
		i, known := slices.BinarySearchFunc(p.Nodes, n.ID, func(a Node, id string) int { return strings.Compare(a.ID, id) })
		if !known {
			p.Nodes = slices.Insert(p.Nodes, i, n)
		}
		p.Nodes[i] = n
	}
	if c.Stores != nil {
		p.Stores = *c.Stores
	}
	known := map[string]int32{}
	for _, s := range p.Stores {
		known[s.Name] = s.Partitions
	}
	p.Partitions = slices.DeleteFunc(slices.Clone(p.Partitions), func(part Partition) bool { return part.Number >= known[part.Store] })
	for _, part := range c.Partitions {
		i, there := slices.BinarySearchFunc(p.Partitions, part, func(a, b Partition) int {
			return metadata.Partition{Store: a.Store, Partition: a.Number}.Compare(metadata.Partition{Store: b.Store, Partition: b.Number})
		})
		if !there {
			p.Partitions = slices.Insert(p.Partitions, i, part)
		}
		p.Partitions[i] = part
	}
	if c.Restores != nil {
		p.Restores = *c.Restores
	}
	if c.Summary != nil {
		p.Summary = *c.Summary
	}
	if c.Reads != nil {
		p.Reads = *c.Reads
	}
	p.Recent = append(slices.Clone(p.Recent), c.Recent...)
	p.Recent = p.Recent[max(0, len(p.Recent)-maxListed):]
	return &p
}

// TestAChangeMakesTheOlderPageTheNewer, whatever has happened in between, and after its way over the wire; and nothing is told
// of pages that are alike.
func TestAChangeMakesTheOlderPageTheNewer(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		older := randomPage(t, rng)
		newer := older
		if seed%10 > 0 {
			newer = randomPage(t, rng)
			newer.Recent = append(slices.Clone(older.Recent), newer.Recent...)
			newer.Recent = newer.Recent[max(0, len(newer.Recent)-maxListed):]
			for i := range newer.Recent {
				newer.Recent[i].Sequence = int64(i) + 1
			}
		}
		same := *newer
		if c := Diff(newer, &same); !c.Empty() {
			t.Fatalf("seed %d: of a page and itself: %s", seed, mustEncode(c))
		}
		diff := Diff(older, newer)
		var c Change
		if err := json.Unmarshal(mustEncode(diff), &c); err != nil {
			t.Fatal(err)
		}
		if got := apply(*older, &c); !reflect.DeepEqual(got, newer) {
			t.Fatalf("seed %d: %s\nmakes of\n%s\n%s\nand not\n%s", seed, mustEncode(c), mustEncode(older), mustEncode(got), mustEncode(newer))
		}
	}
}

func randomPage(t *testing.T, rng *rand.Rand) *Page {
	t.Helper()
	var text strings.Builder
	stores := rng.IntN(3)
	parts := make([]int, stores)
	for s := range stores {
		parts[s] = 1 + rng.IntN(4)
		fmt.Fprintf(&text, "store s%d parts=%d\n", s, parts[s])
	}
	for n := range 4 {
		if rng.IntN(4) == 0 {
			continue
		}
		fmt.Fprintf(&text, "n%d heard=%dms\n", n, rng.IntN(3000))
		for s := range stores {
			for p := range parts[s] {
				if rng.IntN(2) == 0 {
					fmt.Fprintf(&text, "  s%d/%d %s %s pos=%d end=%d time=%dms\n", s, p, metadata.Role(1+rng.IntN(3)), metadata.State(1+rng.IntN(3)), rng.IntN(9), rng.IntN(300), rng.IntN(9000))
				}
			}
		}
	}
	v := readView(t, text.String())
	p := MakePage(v, "", epoch)
	p.Restores = (&restores{}).observe(v, epoch)
	if rng.IntN(2) == 0 {
		p.Reads = Reads{Known: true, Total: rng.Int64N(3), Rates: &Rates{Active: float64(rng.IntN(2)), Refused: map[string]float64{"STALE": float64(rng.IntN(2))}}, Course: []Point{{Active: float64(rng.IntN(2))}}}
	}
	for i := range rng.IntN(4) {
		p.Recent = append(p.Recent, Read{Sequence: int64(i) + 1, Store: "s"})
	}
	return p
}

// TestAPartitionThatMovesIsToldAlone: of thousands of replicas the one that changed goes over the wire.
func TestAPartitionThatMovesIsToldAlone(t *testing.T) {
	const text = "store s parts=2\na\n  s/0 active running pos=9 end=9 time=0s lease\n  s/1 active running pos=9 end=9 time=0s lease\n"
	older := MakePage(readView(t, text), "", epoch)
	newer := MakePage(readView(t, strings.Replace(text, "s/1 active running pos=9 end=9 time=0s lease", "s/1 active suspended pos=9 end=9", 1)), "", epoch)
	c := Diff(older, newer)
	if len(c.Partitions) != 1 || c.Partitions[0].Number != 1 || c.Stores != nil || c.Restores != nil || len(c.Nodes) != 1 {
		t.Errorf("%s", mustEncode(c))
	}
}
