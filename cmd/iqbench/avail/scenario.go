package avail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/client"
)

// Names of the scenarios.
const (
	scenarioKill    = "kill"
	scenarioVanish  = "vanish"
	scenarioRolling = "rolling"
	scenarioPause   = "pause"
	scenarioJoin    = "join"
	scenarioRouter  = "router"
	scenarioBroker  = "broker"
	scenarioMixed   = "mixed"
	scenarioAll     = "all"
)

// How long what happens lasts.
const (
	lead        = time.Second      // of reading in a round before anything happens
	killedFor   = 10 * time.Second // and the other times that a victim is away, unless the options say how long
	vanishedFor = 15 * time.Second
	pausedFor   = 10 * time.Second
	routerFor   = 5 * time.Second
	brokerFor   = 20 * time.Second
	// awaySlack is how long a stop of Kafka may take to reach all its threads.
	awaySlack = 100 * time.Millisecond
	// The one who sleeps is asked from a little before it wakes until it has had time to find out.
	sleeperBefore, sleeperAfter = 300 * time.Millisecond, 3 * time.Second
	sleeperEvery                = 10 * time.Millisecond
)

// A scenario is something that happens, again and again.
type scenario struct {
	name, help string
	// act is one round but for the wait until all is well; it returns how many nodes there are then.
	act func(r *run, ctx context.Context) (nodes int, err error)
	// reset undoes a round, unmeasured. Optional.
	reset func(r *run, ctx context.Context) error
}

func scenarios() []scenario {
	return []scenario{
		{scenarioKill, "a node that is active for something is killed (SIGKILL), and started again 10s later", (*run).actKill, nil},
		{scenarioVanish, "a node's packets are dropped for 15s; each node has a network namespace, which needs root", (*run).actVanish, nil},
		{scenarioRolling, "each node in turn is stopped (SIGTERM), started again, and waited for until all is well", (*run).actRolling, nil},
		{scenarioPause, "a node that is active for something sleeps for 10s (SIGSTOP, SIGCONT), and is asked itself when it wakes", (*run).actPause, nil},
		{scenarioJoin, "another node joins; it leaves again, unmeasured, before the next round", (*run).actJoin, (*run).resetJoin},
		{scenarioRouter, "one of the two routers is killed, and started again 5s later", (*run).actRouter, nil},
		{scenarioBroker, "Kafka is away for 20s", (*run).actBroker, nil},
		{scenarioMixed, "each round one of all faults, see iqbench chaos", (*run).actMixed, nil},
	}
}

func scenarioNames() (names []string) {
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

func scenarioHelp() string {
	var b strings.Builder
	for _, s := range scenarios() {
		fmt.Fprintf(&b, "  %-9s %s\n", s.name, s.help)
	}
	return b.String()
}

// awayFor is how long a victim is away.
func (r *run) awayFor(def time.Duration) time.Duration { return cmp.Or(r.o.Away, def) }

func (r *run) actKill(ctx context.Context) (int, error) {
	m, of, err := r.victim(ctx)
	if err != nil {
		return 0, err
	}
	m.kill()
	r.say(fmt.Sprintf("killed %s, active for %d partitions", m.name, len(of)))
	if !sleep(ctx, r.awayFor(killedFor)) {
		return 0, context.Cause(ctx)
	}
	r.say("starting " + m.name)
	return len(r.nodes), m.start()
}

func (r *run) actVanish(ctx context.Context) (int, error) {
	m, of, err := r.victim(ctx)
	if err != nil {
		return 0, err
	}
	if err := r.net.drop(ctx, m.number()); err != nil {
		return 0, err
	}
	r.say(fmt.Sprintf("dropping the packets of %s, active for %d partitions", m.name, len(of)))
	ok := sleep(ctx, r.awayFor(vanishedFor))
	if err := r.net.heal(context.WithoutCancel(ctx), m.number()); err != nil {
		return 0, err
	}
	if !ok {
		return 0, context.Cause(ctx)
	}
	r.say(m.name + " is reached again")
	return len(r.nodes), nil
}

func (r *run) actRolling(ctx context.Context) (int, error) {
	for _, m := range r.nodes {
		begun := r.now()
		if err := m.stop(); err != nil {
			return 0, err
		}
		r.exits = append(r.exits, r.now()-begun)
		r.say(fmt.Sprintf("stopped %s, which took %s; starting it", m.name, (r.now() - begun).Round(time.Millisecond)))
		if err := m.start(); err != nil {
			return 0, err
		}
		if err := errors.Join(m.listens(ctx), r.awaitWell(ctx, len(r.nodes))); err != nil {
			return 0, err
		}
	}
	return len(r.nodes), nil
}

func (r *run) actPause(ctx context.Context) (int, error) {
	m, of, err := r.victim(ctx)
	if err != nil {
		return 0, err
	}
	c, err := client.New([]string{m.address})
	if err != nil {
		return 0, err
	}
	defer c.Close() //nolint:errcheck // nothing is lost
	if a := r.probe.ask(ctx, c, r.probe.policies[0], r.feed.keys[of[0]][0]); a.err != nil {
		return 0, fmt.Errorf("ask %s itself: %w", m.name, a.err)
	}
	if err := m.proc.Pause(); err != nil {
		return 0, err
	}
	r.say(fmt.Sprintf("%s sleeps, active for %d partitions", m.name, len(of)))
	ok := sleep(ctx, r.awayFor(pausedFor)-sleeperBefore)
	g := new(errgroup.Group)
	g.Go(func() error { return r.askSleeper(ctx, c, of) })
	ok = ok && sleep(ctx, sleeperBefore)
	err = m.proc.Continue()
	r.say(m.name + " is woken")
	if err = errors.Join(err, g.Wait()); err == nil && !ok {
		err = context.Cause(ctx)
	}
	return len(r.nodes), err
}

// askSleeper asks a node itself, with strong and active, for what it was active for when it fell asleep.
func (r *run) askSleeper(ctx context.Context, c *client.Client, of []int32) error {
	var ask []policy
	for _, p := range policies(r.scenario, true) {
		if p.current && p.wait == 0 {
			ask = append(ask, p)
		}
	}
	tick := time.NewTicker(sleeperEvery)
	defer tick.Stop()
	var g errgroup.Group
	for n := range int((sleeperBefore + sleeperAfter) / sleeperEvery) {
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), g.Wait())
		case <-tick.C:
		}
		p := of[n/len(ask)%len(of)]
		key := r.feed.keys[p][n/(len(ask)*len(of))%keysPerPartition]
		g.Go(func() error {
			r.sleeper.take(r.probe.ask(ctx, c, ask[n%len(ask)], key))
			return nil
		})
	}
	return g.Wait()
}

func (r *run) actJoin(ctx context.Context) (int, error) {
	m := r.spare
	if m == nil {
		var err error
		if m, err = r.addNode(ctx); err != nil {
			return 0, err
		}
		r.spare, r.nodes = m, r.nodes[:len(r.nodes)-1]
	}
	r.say("starting " + m.name)
	return r.o.Nodes + 1, errors.Join(m.start(), m.listens(ctx))
}

func (r *run) resetJoin(ctx context.Context) error {
	r.say("stopping " + r.spare.name)
	if err := r.spare.stop(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.file(r.spare.name)); err != nil {
		return err
	}
	return r.awaitWell(ctx, r.o.Nodes)
}

func (r *run) actRouter(ctx context.Context) (int, error) {
	m := r.routers[r.random.IntN(len(r.routers))]
	m.kill()
	r.say("killed " + m.name)
	if !sleep(ctx, r.awayFor(routerFor)) {
		return 0, context.Cause(ctx)
	}
	r.say("starting " + m.name)
	return len(r.nodes), errors.Join(m.start(), m.listens(ctx))
}

func (r *run) actBroker(ctx context.Context) (int, error) {
	back, err := r.brokerAway()
	if err != nil {
		return 0, err
	}
	sleep(ctx, awaySlack)
	r.probe.kafkaGone()
	r.say("Kafka is away")
	ok := sleep(ctx, r.awayFor(brokerFor))
	r.probe.kafkaBack()
	if err := back(ctx); err != nil {
		return 0, err
	}
	if !ok {
		return 0, context.Cause(ctx)
	}
	r.say("Kafka is back")
	return len(r.nodes), nil
}
