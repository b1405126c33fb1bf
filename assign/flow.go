package assign

import (
	"math"
	"slices"
)

// network is a flow network in which mincost finds the cheapest of the largest flows. Costs are whole numbers, not
// negative. It is the primal-dual method: find all distances from the source, push as much as fits along shortest paths
// (a blocking flow, as in Dinic's algorithm), and again until the sink is out of reach. The number of turns is the
// number of different path costs, which is small here, however many units flow.
type network struct {
	nodes int
	edges []edge // as they were added

	// What pack makes of them: each node's arcs side by side, since to walk them is most of the work.
	first []int32 // per node: its first arc; and where the last one's end
	arcs  []arc
	at    []int32 // per edge: its arc

	potential []int64
	level     []int32
	current   []int32 // per node: the next arc to try in this blocking flow
	queue     []int32
}

type edge struct {
	from, to, room int32
	cost           int64
}

// arc is an edge or the way back over it.
type arc struct {
	to, back, room int32
	cost           int64
}

const unreached = math.MaxInt64

// newNetwork makes a network with room for so many edges.
func newNetwork(edges int) *network { return &network{edges: make([]edge, 0, edges)} }

// node adds a node.
func (g *network) node() int32 {
	g.nodes++
	return int32(g.nodes - 1)
}

// edge adds an edge and returns its number, for flow.
func (g *network) edge(from, to int32, room int, cost int64) int32 {
	g.edges = append(g.edges, edge{from: from, to: to, room: int32(room), cost: cost})
	return int32(len(g.edges) - 1)
}

// flow is how much flows over an edge.
func (g *network) flow(edge int32) int { return int(g.arcs[g.arcs[g.at[edge]].back].room) }

// pack sorts the arcs by their nodes, those of the newest edges first.
func (g *network) pack() {
	g.first = make([]int32, g.nodes+1)
	for _, e := range g.edges {
		g.first[e.from+1]++
		g.first[e.to+1]++
	}
	for v := range g.nodes {
		g.first[v+1] += g.first[v]
	}
	g.arcs, g.at = make([]arc, 2*len(g.edges)), make([]int32, len(g.edges))
	free := slices.Clone(g.first)
	for i, e := range slices.Backward(g.edges) {
		there, back := free[e.from], free[e.to]
		free[e.from]++
		free[e.to]++
		g.arcs[there] = arc{to: e.to, back: back, room: e.room, cost: e.cost}
		g.arcs[back] = arc{to: e.from, back: there, cost: -e.cost}
		g.at[i] = there
	}
}

// mincost sends as much as fits from source to sink, at the least cost, and returns how much that is.
func (g *network) mincost(source, sink int32) int {
	g.pack()
	n := g.nodes
	g.potential, g.level, g.current = make([]int64, n), make([]int32, n), make([]int32, n)
	g.queue = make([]int32, 0, n)
	total := 0
	distances := make([]int64, n)
	for g.distances(source, sink, distances); distances[sink] != unreached; g.distances(source, sink, distances) {
		farthest := distances[sink]
		for v := range g.potential {
			// Nodes beyond the sink need not be settled exactly: capping keeps all reduced costs from going below zero.
			g.potential[v] += min(distances[v], farthest)
		}
		for g.levels(source, sink) {
			copy(g.current, g.first)
			for pushed := g.push(source, sink, math.MaxInt32); pushed > 0; pushed = g.push(source, sink, math.MaxInt32) {
				total += int(pushed)
			}
		}
	}
	return total
}

// distances is Dijkstra's algorithm over reduced costs, up to the sink: what is farther has some distance no smaller.
func (g *network) distances(source, sink int32, distance []int64) {
	for v := range distance {
		distance[v] = unreached
	}
	distance[source] = 0
	// Many arcs cost nothing more once their nodes have a potential: what they reach is looked at before the heap.
	same := append(g.queue[:0], source)
	var farther nearest
	for here := int64(0); ; {
		var v int32
		if last := len(same) - 1; last >= 0 {
			v, same = same[last], same[:last]
		} else {
			at, ok := farther.pop()
			if !ok {
				return
			}
			if v = at.node; at.distance > distance[v] {
				continue
			}
			here = at.distance
		}
		if v == sink {
			return
		}
		arcs := g.arcs[g.first[v]:g.first[v+1]]
		for i := range arcs {
			e := &arcs[i]
			if e.room == 0 {
				continue
			}
			d := here + e.cost + g.potential[v] - g.potential[e.to]
			if d >= distance[e.to] {
				continue
			}
			if distance[e.to] = d; d == here {
				same = append(same, e.to)
			} else {
				farther.push(visit{d, e.to})
			}
		}
	}
}

// levels numbers the nodes by their hops from the source over arcs of a shortest path; false if none reaches the sink.
func (g *network) levels(source, sink int32) bool {
	for v := range g.level {
		g.level[v] = -1
	}
	g.level[source] = 0
	g.queue = append(g.queue[:0], source)
	for i := 0; i < len(g.queue); i++ {
		v := g.queue[i]
		arcs := g.arcs[g.first[v]:g.first[v+1]]
		for i := range arcs {
			if e := &arcs[i]; e.room > 0 && g.level[e.to] < 0 && g.tight(v, e) {
				g.level[e.to] = g.level[v] + 1
				g.queue = append(g.queue, e.to)
			}
		}
		if g.level[sink] >= 0 {
			return true // what is farther off is on no shortest path
		}
	}
	return false
}

// push sends up to limit units from v along arcs that go one level up.
func (g *network) push(v, sink, limit int32) int32 {
	if v == sink {
		return limit
	}
	sent := int32(0)
	for ; g.current[v] < g.first[v+1]; g.current[v]++ {
		e := &g.arcs[g.current[v]]
		if e.room == 0 || g.level[e.to] != g.level[v]+1 || !g.tight(v, e) {
			continue
		}
		n := g.push(e.to, sink, min(limit-sent, e.room))
		e.room -= n
		g.arcs[e.back].room += n
		if sent += n; sent == limit {
			return sent // and try this arc again next time
		}
	}
	return sent
}

func (g *network) tight(from int32, e *arc) bool {
	return e.cost+g.potential[from]-g.potential[e.to] == 0
}

type visit struct {
	distance int64
	node     int32
}

// nearest is a binary heap of visits, the nearest first. (container/heap would allocate for each.)
type nearest []visit

func (q *nearest) push(v visit) {
	h := append(*q, v)
	i := len(h) - 1
	for ; i > 0 && v.distance < h[(i-1)/2].distance; i = (i - 1) / 2 {
		h[i] = h[(i-1)/2]
	}
	h[i] = v
	*q = h
}

func (q *nearest) pop() (visit, bool) {
	h := *q
	if len(h) == 0 {
		return visit{}, false
	}
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	for i, child := 0, 1; len(h) > 0; i, child = child, 2*child+1 {
		if child+1 < len(h) && h[child+1].distance < h[child].distance {
			child++
		}
		if child >= len(h) || last.distance <= h[child].distance {
			h[i] = last
			break
		}
		h[i] = h[child]
	}
	*q = h
	return first, true
}
