package assign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/iqgate/iqgate/metadata"
)

// TestPlanSituations plays the life of groups, one file each:
//
//	tasks          the topology: one line a sub-topology, "0 partitions=4 [stateless]"
//	options        standbys, acceptable-lag, max-warmups
//	join           node, and optionally rack, capacity, incarnation: a member without anything
//	leave          node: its member is gone
//	return         node, lag: a new process of a node that left, with the disk it had then (every copy is lag behind)
//	drain          node: it wants to hand over and leave; with "no" no more
//	restart        node, lag: a new process of the node, with its disk (every copy is lag behind); its old member is gone,
//	               or with "zombie" still there; with "static" the new one has the old one's id
//	lag            node, task, lag: the node's copy is so far behind ("none": it has no copy)
//	claim          node, tasks, generation: what the node says it owns
//	caught-up      optionally node: all its copies are at lag 0
//	forget         the leader does not know the previous map
//	round          plan once; afterwards every member has what it got, new copies 50,000 behind, and no other copies
//	settle         caught-up and round in turn until nothing is withheld or awaited
func TestPlanSituations(t *testing.T) {
	datadriven.Walk(t, "testdata/situations", func(t *testing.T, path string) {
		t.Helper()
		var g group
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return g.run(t, d)
		})
	})
}

// newCopyLag is how far behind a new copy of a task begins.
const newCopyLag = 50_000

// group is a cluster whose members do as they are told.
type group struct {
	cluster
	generation metadata.Generation
	gone       map[metadata.NodeID]Member
}

func (g *group) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	switch d.Cmd {
	case "tasks":
		for line := range strings.SplitSeq(d.Input, "\n") {
			var sub, partitions int32
			if _, err := fmt.Sscanf(line, "%d partitions=%d", &sub, &partitions); err != nil {
				d.Fatalf(t, "%q: %v", line, err)
			}
			for p := range partitions {
				id := metadata.TaskID{Subtopology: sub, Partition: p}
				g.tasks = append(g.tasks, Task{ID: id, Stateful: !strings.HasSuffix(line, " stateless")})
			}
		}
	case "options":
		d.MaybeScanArgs(t, "standbys", &g.options.Standbys)
		d.MaybeScanArgs(t, "acceptable-lag", &g.options.AcceptableLag)
		d.MaybeScanArgs(t, "max-warmups", &g.options.MaxWarmups)
	case "join":
		g.join(t, d, scanNode(t, d))
	case "leave":
		m := *g.member(t, d)
		if g.gone == nil {
			g.gone = make(map[metadata.NodeID]Member)
		}
		g.gone[m.Node] = m
		g.members = slices.DeleteFunc(g.members, func(o Member) bool { return o.Node == m.Node })
	case "return":
		m, ok := g.gone[scanNode(t, d)]
		if !ok {
			d.Fatalf(t, "the node did not leave")
		}
		g.members = append(g.members, again(t, d, m))
	case "drain":
		g.member(t, d).Draining = !d.HasArg("no")
	case "restart":
		g.restart(t, d)
	case "lag":
		return g.lag(t, d)
	case "claim":
		m := g.member(t, d)
		m.Owned = scanTasks(t, d, "tasks")
		d.ScanArgs(t, "generation", (*int64)(&m.OwnedGeneration))
	case "caught-up":
		g.catchUp(t, d)
	case "forget":
		g.previous = nil
	case "round":
		text, _ := g.round(t, d)
		return text
	case "settle":
		return g.settle(t, d)
	default:
		d.Fatalf(t, "unknown command")
	}
	return ""
}

func scanNode(t *testing.T, d *datadriven.TestData) metadata.NodeID {
	t.Helper()
	var node string
	d.ScanArgs(t, "node", &node)
	return metadata.NodeID(node)
}

func scanTasks(t *testing.T, d *datadriven.TestData, key string) []metadata.TaskID {
	t.Helper()
	var ids []metadata.TaskID
	for _, arg := range d.CmdArgs {
		for _, v := range arg.Vals {
			if arg.Key != key || v == "" {
				continue
			}
			id, err := metadata.ParseTaskID(v)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			ids = append(ids, id)
		}
	}
	return ids
}

// member is the newest member of the command's node.
func (g *group) member(t *testing.T, d *datadriven.TestData) *Member {
	t.Helper()
	node := scanNode(t, d)
	for i := len(g.members) - 1; i >= 0; i-- {
		if g.members[i].Node == node {
			return &g.members[i]
		}
	}
	d.Fatalf(t, "node %s has no member", node)
	return nil
}

func (g *group) join(t *testing.T, d *datadriven.TestData, node metadata.NodeID) {
	t.Helper()
	m := Member{Node: node, Address: string(node) + ":7070", Incarnation: 1, Lags: make(map[metadata.TaskID]int64)}
	d.MaybeScanArgs(t, "rack", &m.Rack)
	d.MaybeScanArgs(t, "capacity", &m.Capacity)
	d.MaybeScanArgs(t, "incarnation", (*int64)(&m.Incarnation))
	m.ID = fmt.Sprintf("%s-%d", node, m.Incarnation)
	g.members = append(g.members, m)
}

func (g *group) restart(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	old := g.member(t, d)
	m := again(t, d, *old)
	if d.HasArg("static") {
		m.ID = old.ID
	}
	if d.HasArg("zombie") {
		g.members = append(g.members, m)
	} else {
		*old = m
	}
}

// again is the next process of old's node.
func again(t *testing.T, d *datadriven.TestData, old Member) Member {
	t.Helper()
	m := old
	m.Incarnation++
	m.ID = fmt.Sprintf("%s-%d", m.Node, m.Incarnation)
	m.Draining, m.Owned, m.OwnedGeneration, m.Lags = false, nil, 0, make(map[metadata.TaskID]int64)
	var lag int64
	d.MaybeScanArgs(t, "lag", &lag)
	for id := range old.Lags {
		m.Lags[id] = lag
	}
	return m
}

func (g *group) lag(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	m := g.member(t, d)
	for _, id := range scanTasks(t, d, "task") {
		if d.HasArg("none") {
			delete(m.Lags, id)
			continue
		}
		var lag int64
		d.ScanArgs(t, "lag", &lag)
		m.Lags[id] = lag
	}
	return ""
}

func (g *group) catchUp(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	for i := range g.members {
		m := &g.members[i]
		if d.HasArg("node") && m.Node != scanNode(t, d) {
			continue
		}
		for id := range m.Lags {
			m.Lags[id] = 0
		}
	}
}

// round plans, lets the members have what they got, and says whether the group has settled.
func (g *group) round(t *testing.T, d *datadriven.TestData) (string, bool) {
	t.Helper()
	a, err := Plan(g.members, g.tasks, g.previous, g.options)
	if err != nil {
		return fmt.Sprintf("error: %v\n", err), true
	}
	if s := g.broken(a); s != "" {
		d.Fatalf(t, "%s", s)
	}
	g.generation++
	g.previous = &a.Map
	settled := len(a.Withheld) == 0
	anybody := make(map[metadata.TaskID]bool)
	for _, m := range g.members {
		for id := range m.Lags {
			anybody[id] = true
		}
	}
	var b strings.Builder
	for i := range g.members {
		m := &g.members[i]
		given := a.Members[m.ID]
		settled = settled && len(given.Awaited) == 0
		fmt.Fprintf(&b, "%s:", m.ID)
		for _, role := range []struct {
			name  string
			tasks []metadata.TaskID
		}{{"active", given.Active}, {"standby", given.Standby}, {"warm-up", given.Warmup}, {"awaited", given.Awaited}} {
			if len(role.tasks) > 0 {
				fmt.Fprintf(&b, " %s %s", role.name, strings.Trim(fmt.Sprint(role.tasks), "[]"))
			}
		}
		b.WriteString("\n")
		g.obey(m, given, anybody)
	}
	if len(a.Withheld) > 0 {
		fmt.Fprintf(&b, "withheld %s\n", strings.Trim(fmt.Sprint(a.Withheld), "[]"))
	}
	return b.String(), settled
}

// obey makes what a member got its own. The first active of a task starts with an empty changelog.
func (g *group) obey(m *Member, given Given, anybody map[metadata.TaskID]bool) {
	lags := make(map[metadata.TaskID]int64)
	for _, list := range [][]metadata.TaskID{given.Active, given.Standby, given.Warmup} {
		for _, id := range list {
			i := slices.IndexFunc(g.tasks, func(t Task) bool { return t.ID == id })
			if lag, ok := m.Lags[id]; ok {
				lags[id] = lag
			} else if g.tasks[i].Stateful && anybody[id] {
				lags[id] = newCopyLag
			} else if g.tasks[i].Stateful {
				lags[id] = 0
			}
		}
	}
	for _, id := range given.Active {
		if lag, ok := lags[id]; ok && lag <= DefaultAcceptableLag {
			lags[id] = 0
		}
	}
	m.Owned, m.OwnedGeneration, m.Lags = given.Active, g.generation, lags
}

// settle bounds its rounds: a group of a few nodes that is not settled by then never will be.
func (g *group) settle(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	const mostRounds = 30
	var b strings.Builder
	for n := 1; n <= mostRounds; n++ {
		text, settled := g.round(t, d)
		fmt.Fprintf(&b, "round %d\n%s", n, text)
		if settled {
			return b.String()
		}
		g.catchUp(t, &datadriven.TestData{})
	}
	d.Fatalf(t, "not settled after %d rounds\n%s", mostRounds, b.String())
	return ""
}

func TestPlanRefusesBadInputByName(t *testing.T) {
	member := Member{ID: "m", Node: "n"}
	task := Task{ID: metadata.TaskID{Subtopology: 1, Partition: 2}}
	for _, c := range []struct {
		want    string
		members []Member
		tasks   []Task
		options Options
	}{
		{"no members to plan for", nil, nil, Options{}},
		{`member of node "n" has no id`, []Member{{Node: "n"}}, nil, Options{}},
		{`member "m" has no node id`, []Member{{ID: "m"}}, nil, Options{}},
		{`member id "m" is there twice`, []Member{member, {ID: "m", Node: "o"}}, nil, Options{}},
		{`member "m" of node "n": capacity -1 is not within 0 and 1000000`, []Member{{ID: "m", Node: "n", Capacity: -1}}, nil, Options{}},
		{"task 1_2 is there twice", []Member{member}, []Task{task, {ID: task.ID, Stateful: true}}, Options{}},
		{"task 1_-2: its numbers must not be negative", []Member{member}, []Task{{ID: metadata.TaskID{Subtopology: 1, Partition: -2}}}, Options{}},
		{"option Standbys -1 must not be negative", []Member{member}, nil, Options{Standbys: -1}},
		{"option AcceptableLag -1 must not be negative", []Member{member}, nil, Options{AcceptableLag: -1}},
		{"option MaxWarmups -1 must not be negative", []Member{member}, nil, Options{MaxWarmups: -1}},
	} {
		if _, err := Plan(c.members, c.tasks, nil, c.options); err == nil || err.Error() != c.want {
			t.Errorf("%v, not %s", err, c.want)
		}
	}
}

// A process that another start of its node has superseded must not take the newer one's tasks for its own.
func TestMapGivesOnlyTheNamedIncarnationItsTasks(t *testing.T) {
	_, m := wire()
	h := m.Hosts[0]
	if g, ok := m.Given(h.Node, h.Incarnation); !ok || len(g.Active) != 1 || len(g.Awaited) != 2 {
		t.Errorf("%+v, %v", g, ok)
	}
	if g, ok := m.Given(h.Node, h.Incarnation-1); ok || g.Active != nil {
		t.Errorf("the older process gets %+v", g)
	}
	if _, ok := m.Given("unknown", h.Incarnation); ok {
		t.Error("a node that is not in the map gets something")
	}
}
