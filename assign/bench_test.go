package assign

import (
	"fmt"
	"slices"
	"testing"

	"github.com/iqgate/iqgate/metadata"
)

// large is a settled group of so many nodes, with one standby of each task: what each member tells, and the map.
func large(tb testing.TB, nodes, tasks, subtopologies int, o Options) ([]Member, []Task, Map) {
	tb.Helper()
	var ts []Task
	for i := range tasks {
		ts = append(ts, Task{metadata.TaskID{Subtopology: int32(i % subtopologies), Partition: int32(i / subtopologies)}, true})
	}
	var members []Member
	for i := range nodes {
		node := fmt.Sprintf("node-%02d", i)
		members = append(members, Member{ID: "m-" + node, Node: metadata.NodeID(node), Rack: fmt.Sprint("r", i%3), Incarnation: 1})
	}
	a, err := Plan(members, ts, nil, o)
	if err != nil {
		tb.Fatal(err)
	}
	return report(members, a, nil), ts, a.Map
}

// report is what members tell after an assignment, with everything caught up.
func report(members []Member, a Assignment, lag map[metadata.TaskID]int64) []Member {
	var next []Member
	for _, m := range members {
		g := a.Members[m.ID]
		m.Owned, m.OwnedGeneration, m.Lags = g.Active, m.OwnedGeneration+1, make(map[metadata.TaskID]int64)
		for _, list := range [][]metadata.TaskID{g.Active, g.Standby, g.Warmup} {
			for _, t := range list {
				m.Lags[t] = lag[t]
			}
		}
		next = append(next, m)
	}
	return next
}

func BenchmarkPlan(b *testing.B) {
	o := Options{Standbys: 1}
	for _, subs := range []int{1, 100} {
		members, tasks, previous := large(b, 50, 10_000, subs, o)
		cold := make([]Member, len(members))
		for i, m := range members {
			cold[i] = Member{ID: m.ID, Node: m.Node, Rack: m.Rack}
		}
		joined := append([]Member{{ID: "new", Node: "node-new", Rack: "r1"}}, members...)
		drains := slices.Clone(members)
		drains[0].Draining, drains[1].Draining = true, true
		for _, c := range []struct {
			name     string
			members  []Member
			previous *Map
		}{
			{"cold", cold, nil},
			{"settled", members, &previous},
			{"joins", joined, &previous},
			{"leaves", members[1:], &previous},
			{"halved", members[:25], &previous},
			{"drains", drains, &previous},
		} {
			b.Run(fmt.Sprintf("%s/nodes=50/tasks=10000/subtopologies=%d", c.name, subs), func(b *testing.B) {
				for b.Loop() {
					if _, err := Plan(c.members, tasks, c.previous, o); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
