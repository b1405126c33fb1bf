package assign

import (
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/iqgate/iqgate/metadata"
)

// clusters is how many random clusters the properties are tried on; each is planned several times. The variable
// IQGATE_ASSIGN_CLUSTERS says otherwise than the default.
func clusters() int {
	const few = 10_000
	if n, err := strconv.Atoi(os.Getenv("IQGATE_ASSIGN_CLUSTERS")); err == nil {
		return n
	}
	return few
}

func (c cluster) plan(tb testing.TB) Assignment {
	tb.Helper()
	a, err := Plan(c.members, c.tasks, c.previous, c.options)
	if err != nil {
		tb.Fatalf("%v\n%v", err, c)
	}
	return a
}

func TestPlanKeepsItsPromisesInAnyState(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range clusters() {
		c := randomCluster(r)
		a := c.plan(t)
		if s := c.broken(a); s != "" {
			t.Fatalf("%s\n%v\n%+v", s, c, a)
		}
	}
}

func TestPlanIsTheSameForTheSameInputInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range clusters() / 8 {
		c := randomCluster(r)
		a := c.plan(t)
		r.Shuffle(len(c.members), func(i, j int) { c.members[i], c.members[j] = c.members[j], c.members[i] })
		r.Shuffle(len(c.tasks), func(i, j int) { c.tasks[i], c.tasks[j] = c.tasks[j], c.tasks[i] })
		for _, m := range c.members {
			r.Shuffle(len(m.Owned), func(i, j int) { m.Owned[i], m.Owned[j] = m.Owned[j], m.Owned[i] })
		}
		if c.previous != nil {
			hosts := slices.Clone(c.previous.Hosts)
			r.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
			c.previous = &Map{Hosts: hosts}
		}
		if b := c.plan(t); !reflect.DeepEqual(a, b) {
			t.Fatalf("%v\n%+v\n%+v", c, a, b)
		}
	}
}

// afterwards is the cluster as the members report it after an assignment: what they got is theirs, what they had to give
// up is given up, and each copy that they follow has caught up with the given chance. What they follow no longer stays on
// disk with the given chance.
func (c cluster) afterwards(r *rand.Rand, a Assignment, catchUp, leftover float64) cluster {
	next := c
	next.previous = &a.Map
	next.members = nil
	for _, m := range c.members {
		g := a.Members[m.ID]
		lags := make(map[metadata.TaskID]int64)
		for _, t := range c.tasks {
			if lag, ok := m.Lags[t.ID]; ok && r.Float64() < leftover {
				lags[t.ID] = lag
			}
		}
		for _, list := range [][]metadata.TaskID{g.Active, g.Standby, g.Warmup} {
			for _, t := range list {
				lag, ok := m.Lags[t]
				if !ok || lag < 0 {
					lag = 1000
				}
				if r.Float64() < catchUp {
					lag = 0
				}
				lags[t] = lag
			}
		}
		for _, t := range c.tasks {
			if !t.Stateful {
				delete(lags, t.ID)
			}
		}
		for _, t := range g.Active {
			if _, ok := lags[t]; ok {
				lags[t] = 0
			}
		}
		m.Owned, m.Lags, m.OwnedGeneration = g.Active, lags, m.OwnedGeneration+1
		next.members = append(next.members, m)
	}
	return next
}

// settle plans round after round until nothing is withheld or awaited, and returns the state then and the number of
// handovers.
func (c cluster) settle(t *testing.T, r *rand.Rand, catchUp, leftover float64, limit int) (cluster, Assignment, int) {
	t.Helper()
	start, handovers := c, 0
	for round := 1; ; round++ {
		a := c.plan(t)
		if s := c.broken(a); s != "" {
			t.Fatalf("round %d: %s\n%v\n%+v", round, s, c, a)
		}
		awaited := 0
		for _, g := range a.Members {
			awaited += len(g.Awaited)
		}
		next := c.afterwards(r, a, catchUp, leftover)
		handovers += len(a.Withheld)
		if len(a.Withheld) == 0 && awaited == 0 {
			return next, a, handovers
		}
		if round == limit {
			t.Fatalf("not settled after %d rounds\n%v\nnow\n%v\n%+v", round, start, c, a)
		}
		c = next
	}
}

// stays fails the test unless a settled group is spread as promised and planned alike again.
func (c cluster) stays(t *testing.T, start cluster, a Assignment) {
	t.Helper()
	if s := c.uneven(a); s != "" {
		t.Fatalf("%s\n%v\nsettled\n%v\n%+v", s, start, c, a)
	}
	if again := c.plan(t); !reflect.DeepEqual(again.Members, a.Members) {
		t.Fatalf("moves again\n%v\nsettled\n%v\n%+v\n%+v", start, c, a, again)
	}
}

// With warm-ups enough and copies that catch up within a round it takes few rounds from any state: to give up what two
// claim, to warm up, to hand over, and once more where a standby's replacement waited for that.
func TestPlanSettlesEvenlyInFewRoundsAndThenStays(t *testing.T) {
	const fewRounds = 8
	r := rand.New(rand.NewPCG(3, 3))
	for range clusters() / 16 {
		c := randomCluster(r)
		c.options.MaxWarmups = 100
		settled, a, _ := c.settle(t, r, 1, 0.5, fewRounds)
		settled.stays(t, c, a)
	}
}

// However few warm-ups there may be, however slowly they go, and whatever lies on disks besides.
func TestPlanSettlesEvenlyWithFewSlowWarmups(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range clusters() / 40 {
		c := randomCluster(r)
		settled, a, _ := c.settle(t, r, 0.6, 0.7, 300)
		settled.stays(t, c, a)
	}
}

// However slowly copies catch up and however few warm-ups there may be, each task is handed over once at most, and only
// as many as the first round had to. Only what a member that leaves had may go on at another that has caught up before
// the one that it is for.
func TestPlanHandsOverNoMoreThanTheFirstRoundHadTo(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range clusters() / 40 {
		c := settledGroup(r)
		need := fewestMoves(t, c)
		settled, a, handovers := c.settle(t, r, 0.7, 0, 200)
		most := need
		for _, m := range c.members {
			if m.Draining {
				most += len(m.Owned)
			}
		}
		if handovers < need || handovers > most {
			t.Fatalf("%d handovers where %d do\n%v", handovers, need, c)
		}
		settled.stays(t, c, a)
	}
}

// fewestMoves is how many tasks leave their owners in the target.
func fewestMoves(t *testing.T, c cluster) int {
	t.Helper()
	p, err := newPlan(c.members, c.tasks, c.options)
	if err != nil {
		t.Fatal(err)
	}
	p.claims()
	p.lookBack(c.previous)
	p.weighCopies()
	moves := 0
	for i, m := range p.target() {
		if p.owner[i] >= 0 && p.owner[i] != m {
			moves++
		}
	}
	return moves
}
