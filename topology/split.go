package topology

import "slices"

// half is a node as a part of one sub-topology. A repartition node has two: the half that writes its topic belongs with
// its parents, the half that reads it (reads) with its children. Every other node has one.
type half struct {
	node  int
	reads bool
}

// into is the half of a node that its parents forward to.
func (g *graph) into(node int) half { return half{node: node} }

// from is the half of a node that forwards to its children.
func (g *graph) from(node int) half {
	return half{node: node, reads: g.nodes[node].kind == repartitionNode}
}

// halves returns all halves in the order in which nodes were added.
func (g *graph) halves() []half {
	var all []half
	for i, n := range g.nodes {
		all = append(all, half{node: i})
		if n.kind == repartitionNode {
			all = append(all, half{node: i, reads: true})
		}
	}
	return all
}

// groups maps each half to the first half of its sub-topology: halves belong together when one forwards to the other or
// when they use one store.
func (g *graph) groups() map[half]half {
	root := map[half]half{}
	var find func(h half) half
	find = func(h half) half {
		up, ok := root[h]
		if !ok || up == h {
			return h
		}
		root[h] = find(up)
		return root[h]
	}
	for i := range g.nodes {
		for _, c := range g.children[i] {
			root[find(g.into(c))] = find(g.from(i))
		}
	}
	for _, s := range g.stores {
		for _, p := range s.processors {
			root[find(g.into(g.byName[p]))] = find(g.into(g.byName[s.processors[0]]))
		}
	}
	group := map[half]half{}
	for _, h := range g.halves() {
		group[h] = find(h)
	}
	return group
}

// numbers gives each group its id: in the ascending order of source names, each new group gets the next one (Kafka
// Streams' InternalTopologyBuilder.makeNodeGroups).
func (g *graph) numbers(group map[half]half) map[half]int32 {
	var sources []half
	for _, h := range g.halves() {
		if h.reads || g.nodes[h.node].kind == sourceNode {
			sources = append(sources, h)
		}
	}
	slices.SortStableFunc(sources, func(a, b half) int {
		switch x, y := g.nodes[a.node].name, g.nodes[b.node].name; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	ids := map[half]int32{}
	for _, h := range sources {
		if _, known := ids[group[h]]; !known {
			ids[group[h]] = int32(len(ids))
		}
	}
	return ids
}
