package assign

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/iqgate/iqgate/metadata"
)

// life is a group to which one thing after another happens.
type life struct {
	cluster
	r       *rand.Rand
	gone    []Member // with the disks they had
	joined  int
	log     []string // what happened
	catchUp float64  // the chance of a copy to catch up within a round
}

// newLife is a group that has just started and settled.
func newLife(t *testing.T, r *rand.Rand) *life {
	t.Helper()
	l := &life{cluster: randomCluster(r), r: r, catchUp: 1}
	l.previous = nil
	for i := range l.members {
		m := &l.members[i]
		m.Node, m.Draining = metadata.NodeID(fmt.Sprint("n", i)), false
		m.Owned, m.OwnedGeneration, m.Lags = nil, 0, make(map[metadata.TaskID]int64)
	}
	l.joined = len(l.members)
	l.settle(t)
	return l
}

func (l *life) String() string { return fmt.Sprintf("%q\n%v", l.log, l.cluster) }

func (l *life) say(format string, args ...any) { l.log = append(l.log, fmt.Sprintf(format, args...)) }

// happens lets a random thing happen.
func (l *life) happens() {
	i := l.r.IntN(len(l.members))
	m := &l.members[i]
	switch l.r.IntN(7) {
	case 0: // its member is gone, drained or not
		if len(l.members) > 1 {
			l.say("%s is lost", m.Node)
			l.gone = append(l.gone, *m)
			l.members = slices.Delete(slices.Clone(l.members), i, i+1)
		}
	case 1: // a static member's new process
		*m = l.again(*m)
		l.say("%s restarts", m.Node)
	case 2:
		l.join()
	case 3:
		if n := len(l.gone); n > 0 {
			m := l.again(l.gone[n-1])
			l.gone = l.gone[:n-1]
			l.members = append(l.members, m)
			l.say("%s is back", m.Node)
		} else {
			l.join()
		}
	case 4, 5:
		m.Draining = true
		l.say("%s drains", m.Node)
	default:
		m.Draining = false
		l.say("%s drains no more", m.Node)
	}
}

func (l *life) join() {
	const mostMembers = 8
	if len(l.members) == mostMembers {
		return
	}
	m := Member{
		ID: fmt.Sprint("m", l.joined), Node: metadata.NodeID(fmt.Sprint("n", l.joined)), Rack: l.members[0].Rack,
		Capacity: l.members[0].Capacity, Lags: make(map[metadata.TaskID]int64),
	}
	l.joined++
	l.members = append(l.members, m)
	l.say("%s joins", m.Node)
}

// again is the next process of the member's node, with the disk as it was, some records behind or far behind, or gone.
func (l *life) again(m Member) Member {
	m.Incarnation++
	m.Draining, m.Owned, m.OwnedGeneration = false, nil, 0
	lags := make(map[metadata.TaskID]int64)
	if lag := []int64{0, 20, 5000, -1}[l.r.IntN(4)]; lag >= 0 {
		for t := range m.Lags {
			lags[t] = lag
		}
	}
	m.Lags = lags
	return m
}

// round plans once, checks the plan and lets the members obey.
func (l *life) round(t *testing.T) Assignment {
	t.Helper()
	l.r.Shuffle(len(l.members), func(i, j int) { l.members[i], l.members[j] = l.members[j], l.members[i] })
	a := l.plan(t)
	if s := l.broken(a); s != "" {
		t.Fatalf("%s\n%v\n%+v", s, l, a)
	}
	l.cluster = l.afterwards(l.r, a, l.catchUp, 0.3)
	return a
}

// mostRounds is how many rounds a group takes to settle at most when copies catch up within a round: a few to hand over
// what can be, and for the rest two for each batch of warm-ups, one to read up and one to hand over. When they do not, it
// takes as many times that as all of a batch may need, but for bad luck.
func (l *life) mostRounds() int {
	const few = 8
	warmups := max(1, l.options.MaxWarmups)
	replicas := len(l.tasks) * (1 + l.options.Standbys)
	n := few + 2*((replicas+warmups-1)/warmups)
	if l.catchUp < 1 {
		n *= 4
	}
	return n
}

// settle plans until nothing is withheld or awaited, checks that this takes no more rounds than it may, that no task is
// nobody's for two rounds, goes to and fro, and that the plan stays.
func (l *life) settle(t *testing.T) (first, last Assignment, handovers int) {
	t.Helper()
	been := make(map[metadata.TaskID][]string) // whose each task was, in turn
	withheld := make(map[metadata.TaskID]bool)
	for n := 1; ; n++ {
		before := l.cluster
		a := l.round(t)
		if n == 1 {
			first = a
		}
		open := len(a.Withheld)
		handovers += open
		for id, g := range a.Members {
			open += len(g.Awaited)
			for _, task := range g.Active {
				was := been[task]
				switch {
				case len(was) > 0 && was[len(was)-1] == id:
				case slices.Contains(was, id):
					t.Fatalf("%v went from %v back to %s\n%v", task, was, id, l)
				default:
					been[task] = append(was, id)
				}
			}
		}
		for _, task := range a.Withheld {
			if withheld[task] {
				t.Fatalf("%v is nobody's for two rounds\n%v", task, l)
			}
		}
		clear(withheld)
		for _, task := range a.Withheld {
			withheld[task] = true
		}
		if open == 0 {
			l.stays(t, before, a)
			return first, a, handovers
		}
		if n == l.mostRounds() {
			t.Fatalf("not settled after %d rounds\n%v\n%+v", n, l, a)
		}
	}
}

// actives says whose each task is.
func actives(a Assignment) map[metadata.TaskID]string {
	by := make(map[metadata.TaskID]string)
	for id, g := range a.Members {
		for _, t := range g.Active {
			by[t] = id
		}
	}
	return by
}

// Whatever happens, one thing after another or several at once: each plan keeps its promises, the group settles in a
// bounded number of rounds, no task goes to and fro meanwhile, and then nothing moves.
func TestPlanSettlesWhateverHappensAndThenStays(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const things = 6
	for range clusters() / 100 {
		l := newLife(t, r)
		l.catchUp = []float64{1, 1, 0.6}[r.IntN(3)]
		for range things {
			l.happens()
			for range r.IntN(3) { // more happens before it has settled
				l.round(t)
				l.happens()
			}
			l.settle(t)
		}
	}
}

// When a node is lost its tasks go on at once where they have caught up, and nothing is handed over beyond what the
// spread needs (TestTargetIsTheCheapestOfAllEvenOnes says that it needs that). Among members that are alike, with one
// sub-topology and no standbys that could do with less reading, that is nothing.
func TestLostNodeMovesNoTaskOfAnotherWithoutNeed(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	alike := 0
	for range clusters() / 40 {
		l := newLife(t, r)
		if len(l.members) < 2 {
			continue
		}
		before := actives(l.round(t))
		i := r.IntN(len(l.members))
		lost := l.members[i]
		l.members = slices.Delete(slices.Clone(l.members), i, i+1)
		l.say("%s is lost", lost.Node)
		f, need := l.facts(), l.fewestHandovers(t)
		if l.options.Standbys == 0 && l.tasks[0].ID.Subtopology == l.tasks[len(l.tasks)-1].ID.Subtopology &&
			!slices.ContainsFunc(l.members, func(m Member) bool { return max(1, m.Capacity) != max(1, lost.Capacity) }) {
			alike++
			need = 0
		}
		first, last, handovers := l.settle(t)
		now, after := actives(first), actives(last)
		moved := 0
		for _, task := range l.tasks {
			switch id := task.ID; {
			case before[id] != lost.ID:
				if after[id] != before[id] {
					moved++
				}
			case now[id] == "":
				t.Fatalf("%v is withheld though nobody alive holds it\n%v\n%+v", id, l, first)
			case len(f.ready[id]) > 0 && !f.ready[id][now[id]]:
				t.Fatalf("%v does not go on where it has caught up\n%v\n%+v", id, l, first)
			}
		}
		if handovers > need || moved > need {
			t.Fatalf("%d handovers, %d tasks of others moved, where %d do\n%v", handovers, moved, need, l)
		}
	}
	if alike == 0 {
		t.Error("no group of members that are alike was tried")
	}
}

// fewestHandovers is how many the target takes.
func (l *life) fewestHandovers(t *testing.T) int {
	t.Helper()
	p, err := newPlan(l.members, l.tasks, l.options)
	if err != nil {
		t.Fatal(err)
	}
	p.claims()
	p.lookBack(l.previous)
	p.weighCopies()
	n, _ := price(p, p.target())
	return n
}

// A round for no reason, such as a member that joined again after a hiccup, moves no active and begins no new copy while
// copies read up. (The map does not tell a warm-up for an active from one for a standby. When two of one member could
// change places, the plan may think better of one, once: a handful of times in ten thousand. From then on it is stable.)
func TestPlanBeginsNothingNewWhileNothingHasCaughtUp(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	lives, awaited, fickle, last := clusters()/50, 0, 0, ""
	for range lives {
		l := newLife(t, r)
		l.happens()
		l.catchUp = 0
		a := l.round(t)
		for n := 0; len(a.Withheld) > 0 && n < 3; n++ {
			a = l.round(t)
		}
		before, b := l.String(), l.round(t)
		for id, g := range b.Members {
			had := a.Members[id]
			isNew := func(t metadata.TaskID) bool {
				return !slices.Contains(had.Standby, t) && !slices.Contains(had.Warmup, t)
			}
			if !slices.Equal(g.Active, had.Active) || slices.ContainsFunc(g.Standby, isNew) || slices.ContainsFunc(g.Warmup, isNew) {
				fickle++
				last = fmt.Sprintf("%s got %+v, now %+v\n%s", id, had, g, before)
			}
			awaited += len(g.Awaited)
		}
		if c := l.round(t); !reflect.DeepEqual(b.Members, c.Members) && !reflect.DeepEqual(c.Members, l.round(t).Members) {
			t.Fatalf("%s\n%+v\n%+v\n%+v", before, a, b, c)
		}
	}
	if awaited == 0 {
		t.Error("nothing was awaited")
	}
	if fickle > lives/1000 {
		t.Errorf("%d of %d began something new\n%s", fickle, lives, last)
	}
}
