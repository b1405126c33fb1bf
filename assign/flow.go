package assign

import (
	"container/heap"
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
	q := &nearest{{0, source}}
	for q.Len() > 0 {
		at := heap.Pop(q).(visit)
		if at.node == sink {
			return
		}
		if at.distance > distance[at.node] {
			continue
		}
		for a := g.first[at.node]; a >= 0; a = g.arcs[a].next {
			e := &g.arcs[a]
			if e.room == 0 {
				continue
			}
			d := at.distance + e.cost + g.potential[at.node] - g.potential[e.to]
			if d < distance[e.to] {
				distance[e.to] = d
				heap.Push(q, visit{d, e.to})
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
	}
	return g.level[sink] >= 0
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

// nearest is a heap of visits, the nearest first.
type nearest []visit

func (q nearest) Len() int { return len(q) }
func (q nearest) Less(i, j int) bool {
	return q[i].distance < q[j].distance || q[i].distance == q[j].distance && q[i].node < q[j].node
}
func (q nearest) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *nearest) Push(x any)   { *q = append(*q, x.(visit)) }
func (q *nearest) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	*q = (*q)[:last]
	return v
}
