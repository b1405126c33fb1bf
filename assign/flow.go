package assign

import (
	"math"
)

// network is a flow network in which mincost finds the cheapest of the largest flows. Costs are whole numbers, not
// negative. It is the primal-dual method: find all distances from the source, push as much as fits along shortest paths
// (a blocking flow, as in Dinic's algorithm), and again until the sink is out of reach. The number of turns is the
// number of different path costs, which is small here, however many units flow.
type network struct {
	first []int32 // per node: its first arc, or -1
	arcs  []arc   // an arc and its reverse are neighbours: 2k and 2k+1

	potential []int64
	level     []int32
	current   []int32 // per node: the next arc to try in this blocking flow
	queue     []int32
}

type arc struct {
	to, next int32
	room     int32
	cost     int64
}

const unreached = math.MaxInt64

// newNetwork makes a network with room for so many nodes and arcs.
func newNetwork(nodes, arcs int) *network {
	return &network{first: make([]int32, 0, nodes), arcs: make([]arc, 0, 2*arcs)}
}

// node adds a node.
func (g *network) node() int32 {
	g.first = append(g.first, -1)
	return int32(len(g.first) - 1)
}

// arc adds an arc and returns its number, for flow.
func (g *network) arc(from, to int32, room int, cost int64) int32 {
	n := int32(len(g.arcs))
	g.arcs = append(g.arcs,
		arc{to: to, next: g.first[from], room: int32(room), cost: cost},
		arc{to: from, next: g.first[to], room: 0, cost: -cost})
	g.first[from], g.first[to] = n, n+1
	return n
}

// flow is how much flows through an arc.
func (g *network) flow(arc int32) int { return int(g.arcs[arc^1].room) }

// mincost sends as much as fits from source to sink, at the least cost, and returns how much that is.
func (g *network) mincost(source, sink int32) int {
	n := len(g.first)
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
		for a := g.first[v]; a >= 0; a = g.arcs[a].next {
			e := &g.arcs[a]
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
		for a := g.first[v]; a >= 0; a = g.arcs[a].next {
			if e := &g.arcs[a]; e.room > 0 && g.level[e.to] < 0 && g.tight(v, e) {
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
	for ; g.current[v] >= 0; g.current[v] = g.arcs[g.current[v]].next {
		a := g.current[v]
		e := &g.arcs[a]
		if e.room == 0 || g.level[e.to] != g.level[v]+1 || !g.tight(v, e) {
			continue
		}
		n := g.push(e.to, sink, min(limit-sent, e.room))
		e.room -= n
		g.arcs[a^1].room += n
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
