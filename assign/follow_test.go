package assign

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/iqgate/iqgate/metadata"
)

// A group in replica mode owns nothing: whoever gets a task as active has one more copy. Whatever happens to it, each task has
// its copies on different nodes, nothing is withheld, no copy that is ready is given up for one that is not, and the group
// settles.
func TestGroupThatOwnsNothingHasItsCopies(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range clusters() / 100 {
		l := newLife(t, r)
		for i := range l.tasks {
			l.tasks[i].Stateful = true
		}
		l.options.Standbys = r.IntN(3)
		l.say("%d copies", 1+l.options.Standbys)
		l.disown()
		for range 6 {
			l.happens()
			l.disown()
			var last Assignment
			for n := 0; ; n++ {
				before := l.cluster
				a := l.plan(t)
				if s := copiesBroken(before, a); s != "" {
					t.Fatalf("%s\n%v\n%+v", s, l, a)
				}
				l.cluster = l.afterwards(l.r, a, 1, 0)
				l.disown()
				if n > 0 && reflect.DeepEqual(a.Map, last.Map) {
					break
				}
				if last = a; n > 2*l.mostRounds() {
					t.Fatalf("not settled after %d rounds\n%v\n%+v", n, l, a)
				}
			}
		}
	}
}

// disown makes the members what nodes in replica mode are.
func (l *life) disown() {
	for i := range l.members {
		l.members[i].Owned, l.members[i].OwnedGeneration = nil, 0
	}
}

// copiesBroken says which promise to a group in replica mode a plan breaks.
func copiesBroken(c cluster, a Assignment) string {
	if len(a.Withheld) > 0 {
		return fmt.Sprintf("%v are withheld from copies", a.Withheld)
	}
	staying := 0
	draining := make(map[metadata.NodeID]bool)
	lags := make(map[metadata.NodeID]map[metadata.TaskID]int64)
	for _, m := range c.members {
		draining[m.Node], lags[m.Node] = m.Draining, m.Lags
		if !m.Draining {
			staying++
		}
	}
	if staying == 0 {
		return ""
	}
	limit := c.options.AcceptableLag
	if limit == 0 {
		limit = DefaultAcceptableLag
	}
	for _, task := range c.tasks {
		var at []metadata.NodeID
		ready, couldBe := 0, 0
		for _, h := range a.Map.Hosts {
			lag, state := lags[h.Node][task.ID]
			caughtUp := state && lag >= 0 && lag <= limit && !draining[h.Node]
			if caughtUp {
				couldBe++
			}
			if draining[h.Node] || !slices.Contains(h.Active, task.ID) && !slices.Contains(h.Standby, task.ID) {
				continue
			}
			at = append(at, h.Node)
			if caughtUp {
				ready++
			}
		}
		wanted := 1 + c.options.Standbys
		switch most := min(wanted, staying); {
		case len(at) > most:
			return fmt.Sprintf("%v has copies at %v, more than %d", task.ID, at, most)
		case len(at) < most-1: // the first one may still be with a member that drains
			return fmt.Sprintf("%v has copies at %v, fewer than %d", task.ID, at, most)
		case ready < min(most, couldBe):
			return fmt.Sprintf("%v has %d copies that are ready at %v, where %d could be", task.ID, ready, at, min(most, couldBe))
		}
	}
	return ""
}
