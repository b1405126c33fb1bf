package assign

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTargetIsTheCheapestOfAllEvenOnes tries every way to give the tasks of small clusters to members: no way that
// spreads them as promised has fewer handovers than the target, nor, with as few, less to read up.
func TestTargetIsTheCheapestOfAllEvenOnes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	const clusters, mostWays = 1500, 3000
	tried := 0
	for tried < clusters {
		c := randomCluster(r)
		p, err := newPlan(c.members, c.tasks, c.options)
		if err != nil {
			t.Fatal(err)
		}
		ways := 1
		for range p.tasks {
			if ways *= len(p.members); ways > mostWays {
				break
			}
		}
		if ways > mostWays || ways == 1 || p.stuck {
			continue
		}
		tried++
		p.claims()
		p.lookBack(c.previous)
		p.weighCopies()
		target := p.target()
		if !even(p, target) {
			t.Fatalf("target %v is uneven\n%v", target, c)
		}
		handovers, cost := price(p, target)
		way := make([]int, len(p.tasks))
		for range ways {
			if even(p, way) {
				if h, c2 := price(p, way); h < handovers || h == handovers && c2 < cost {
					t.Fatalf("target %v has %d handovers at cost %d, %v has %d at %d\n%v", target, handovers, cost, way, h, c2, c)
				}
			}
			for i := range way { // count on
				if way[i]++; way[i] < len(p.members) {
					break
				}
				way[i] = 0
			}
		}
	}
}

// price counts the handovers that are needed to get from now to there, and sums up what has to be read.
func price(p *plan, at []int) (handovers int, reading int64) {
	for t, m := range at {
		ready := make(map[int]bool)
		for _, c := range p.copies[t] {
			if c.ready && !p.leaves[c.member] {
				ready[c.member] = true
			}
		}
		owner := p.owner[t]
		if owner >= 0 && p.leaves[owner] {
			owner = -1 // it goes in any case
		}
		now := owner >= 0 && (len(ready) == 0 || ready[owner]) // the owner may go on
		switch {
		case now && owner == m:
			continue
		case now, len(ready) > 0 && !ready[m]: // from the owner, or from whoever has it meanwhile
			handovers++
		}
		kind := int64(costNothing)
		if !p.tasks[t].Stateful {
			kind = costReady
			if owner >= 0 {
				kind = 0 // no place is better than another
			} else if p.was[t] == m {
				kind = costStay
			}
		}
		if i, ok := p.find(t, m); ok {
			kind = p.copyCost(t, p.copies[t][i])
		}
		reading += kind
	}
	return handovers, reading
}

// even says whether a way to give tasks to members keeps to the shares: of all, of the stateful ones, of each
// sub-topology.
func even(p *plan, at []int) bool {
	for what := int32(-3); what < 3; what++ {
		total, have := 0, make([]int, len(p.members))
		for t, task := range p.tasks {
			if what == -3 || what == -2 && task.Stateful || what == -1 && !task.Stateful || what == task.ID.Subtopology {
				total++
				have[at[t]]++
			}
		}
		for m := range have {
			share, rest := p.share(total, m)
			if have[m] < share || have[m] > share+1 || have[m] > share && !rest {
				return false
			}
		}
	}
	return true
}

// TestFlowEqualsBellmanFord compares mincost with the slow way: one unit after the other along a path that a plain
// relaxation finds.
func TestFlowEqualsBellmanFord(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 2000 {
		fast, slow := &network{}, &network{}
		nodes := 2 + r.IntN(7)
		for range nodes {
			fast.node()
			slow.node()
		}
		for range r.IntN(20) {
			from, to := int32(r.IntN(nodes)), int32(r.IntN(nodes))
			if from == to {
				continue
			}
			room, cost := r.IntN(4), int64(r.IntN(6))
			fast.edge(from, to, room, cost)
			slow.edge(from, to, room, cost)
		}
		got, want := fast.mincost(0, 1), oneByOne(slow, 0, 1)
		if got != want || worth(fast) != worth(slow) {
			t.Fatalf("flow %d worth %d, not %d worth %d: %+v", got, worth(fast), want, worth(slow), fast.arcs)
		}
	}
}

func worth(g *network) (cost int64) {
	for i, e := range g.edges {
		cost += int64(g.flow(int32(i))) * e.cost
	}
	return cost
}

func oneByOne(g *network, source, sink int32) int {
	g.pack()
	for units := 0; ; units++ {
		distance := slices.Repeat([]int64{unreached}, g.nodes)
		by := make([]int32, g.nodes)
		distance[source] = 0
		for range g.nodes {
			for a, e := range g.arcs {
				from := g.arcs[e.back].to
				if e.room > 0 && distance[from] != unreached && distance[from]+e.cost < distance[e.to] {
					distance[e.to], by[e.to] = distance[from]+e.cost, int32(a)
				}
			}
		}
		if distance[sink] == unreached {
			return units
		}
		for v := sink; v != source; v = g.arcs[g.arcs[by[v]].back].to {
			g.arcs[by[v]].room--
			g.arcs[g.arcs[by[v]].back].room++
		}
	}
}
