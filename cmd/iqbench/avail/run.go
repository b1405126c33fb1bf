package avail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/integration/kafkabroker"
)

// ErrBroken ends a run in which a promise was broken. The report says which.
var ErrBroken = errors.New("a promise was broken")

// errInterrupted ends a run that a signal ended.
var errInterrupted = errors.New("interrupted")

// removeTimeout bounds the removal of the network.
const removeTimeout = 30 * time.Second

// A run is one scenario on a cluster of its own.
type run struct {
	o        Options
	scenario string
	errs     io.Writer
	dir, bin string
	begin    time.Time
	random   *rand.Rand
	died     chan error // gets the first end of a process that was not wanted

	broker     broker
	real       *kafkabroker.Broker // broker, with --kafka real
	brokerEnds atomic.Bool         // its end is wanted
	brokers    string
	kafka      *kgo.Client

	net             *network // nil where nodes need none of their own
	routers, nodes  []*member
	spare           *member          // the node that joins
	asking, readers []*client.Client // of each router: to ask about the cluster, and to read

	feed    *feed
	probe   *probe
	watch   watch
	rounds  []round
	exits   []time.Duration // of nodes, by SIGTERM
	sleeper sleeper

	mixed    mixed  // of scenario mixed
	lastSaid string // by say
}

// A round is what was measured in one.
type round struct {
	length time.Duration
	window *window
	gaps   []gap // by policy, the longest of all partitions
	stall  time.Duration
}

// sleeper is what a node said that was asked itself when it woke.
type sleeper struct {
	mu sync.Mutex

	reads, answered, older int
	firstWrong             string
}

func (s *sleeper) take(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if a.err != nil {
		return
	}
	s.answered++
	s.older += a.older
	if s.firstWrong == "" {
		s.firstWrong = a.wrong
	}
}

// Run measures and prints the result on out and progress on errs. It returns an [*OptionError] for bad options, and ErrBroken
// when a promise was broken, which has been printed. After any end no process is left.
func Run(ctx context.Context, o Options, out, errs io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	names := []string{o.Scenario}
	if o.Scenario == scenarioAll {
		names = slices.DeleteFunc(scenarioNames(), func(name string) bool { return name == scenarioMixed }) // it has a command of its own
	}
	var reports []report
	var failed []error
	for _, name := range names {
		rep, err := runOne(ctx, o, name, errs)
		if err != nil {
			failed = append(failed, fmt.Errorf("scenario %s: %w", name, err))
			if ctx.Err() != nil {
				break
			}
			continue
		}
		reports = append(reports, rep)
		if !o.JSON {
			_, _ = io.WriteString(out, rep.text())
		}
	}
	if o.JSON && (len(reports) > 0 || len(names) > 1) {
		line, err := jsonLine(o, reports, len(failed) == 0)
		if err != nil {
			return err
		}
		_, _ = io.WriteString(out, line)
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, rep := range reports {
		if len(rep.Broken) > 0 {
			return ErrBroken
		}
	}
	return nil
}

// runOne plays one scenario from Kafka's start to the comparison of the counts.
func runOne(ctx context.Context, o Options, name string, errs io.Writer) (rep report, err error) {
	dir, err := os.MkdirTemp("", "iqbench-")
	if err != nil {
		return report{}, err
	}
	r := &run{
		o: o, scenario: name, errs: errs, dir: dir, begin: time.Now(), died: make(chan error, 1),
		random: rand.New(rand.NewPCG(o.Seed, 0)), //nolint:gosec // chooses victims, guards nothing
	}
	rctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case died := <-r.died:
			cancel(died)
		case <-rctx.Done():
		}
	}()
	rep, err = r.play(rctx)
	if err != nil && rctx.Err() != nil {
		if err = context.Cause(rctx); errors.Is(err, context.Canceled) {
			err = errInterrupted
		}
	}
	if err != nil && !errors.Is(err, errInterrupted) {
		r.showLogs()
	}
	err = errors.Join(err, r.end(context.WithoutCancel(ctx)))
	if o.Keep {
		r.say("logs and stores are kept in " + dir)
		return rep, err
	}
	return rep, errors.Join(err, os.RemoveAll(dir))
}

// now is the time since the start of the run.
func (r *run) now() time.Duration { return time.Since(r.begin) }

// file is a path in the run's folder.
func (r *run) file(name string) string { return filepath.Join(r.dir, name) }

// say tells of progress.
func (r *run) say(text string) {
	r.lastSaid = text
	_, _ = fmt.Fprintf(r.errs, "%6.1fs  %s: %s\n", r.now().Seconds(), r.scenario, text)
}

// play is the run but for its end.
func (r *run) play(ctx context.Context) (report, error) {
	var err error
	if r.scenario == scenarioVanish {
		if r.net, err = newNetwork(ctx); err != nil {
			return report{}, err
		}
	}
	if r.scenario == scenarioMixed {
		r.prepareMixed(ctx)
	}
	if r.bin, err = programs(ctx, r.o.Bin, r.dir); err != nil {
		return report{}, err
	}
	if r.feed, err = newFeed(r.o.Partitions); err != nil {
		return report{}, err
	}
	if err := r.startKafka(ctx); err != nil {
		return report{}, err
	}
	if err := r.startCluster(ctx); err != nil {
		return report{}, err
	}
	r.probe = newProbe(policies(r.scenario, r.o.AtOnce), r.readers, r.feed, r.now)
	if r.scenario == scenarioMixed {
		if err := r.writeSide(ctx); err != nil {
			return report{}, err
		}
	}
	r.say(fmt.Sprintf("all is well; %d records and %d reads a second begin", r.o.Records, r.o.Reads))
	if err := r.work(ctx); err != nil {
		return report{}, err
	}
	r.say("the input has ended; comparing every count")
	v, err := r.verify(ctx)
	if err == nil && r.scenario == scenarioMixed {
		r.say("comparing the replicas with one another and with their changelogs")
		v.replicas, v.entries, err = r.compareReplicas(ctx)
		v.replicas = append(v.replicas, r.sideStale(ctx)...)
	}
	if err != nil {
		return report{}, err
	}
	return r.report(v), nil
}

// work feeds, reads, watches and plays the rounds.
func (r *run) work(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	all, stop := context.WithCancel(gctx)
	defer stop()
	g.Go(func() error { return r.feed.run(all, r.kafka, r.o.Records, r.now) })
	g.Go(func() error { return r.probe.run(all, r.o.Reads) })
	g.Go(func() error { return r.watchRoles(all) })
	g.Go(func() error {
		defer stop()
		return r.playRounds(gctx)
	})
	return g.Wait()
}

func (r *run) playRounds(ctx context.Context) error {
	var s scenario
	for _, one := range scenarios() {
		if one.name == r.scenario {
			s = one
		}
	}
	if err := r.awaitWell(ctx, r.o.Nodes); err != nil { // with input, too
		return err
	}
	begun := r.now()
	for n := 0; r.another(n, begun); n++ {
		r.say(r.roundName(n, begun))
		r.cut() // what came before the round does not count
		r.watch.measure(true)
		if !sleep(ctx, lead) {
			return context.Cause(ctx)
		}
		nodes, err := s.act(r, ctx)
		if err != nil {
			return err
		}
		if err := r.awaitWell(ctx, nodes); err != nil {
			return err
		}
		r.watch.measure(false)
		done := r.cut()
		r.rounds = append(r.rounds, done)
		r.noteRound(done)
		r.say(r.roundText(done))
		if s.reset != nil && n+1 < r.o.Rounds {
			if err := s.reset(r, ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// another says whether there is a round n, counted from 0: by their number, or by the time for which they go on.
func (r *run) another(n int, begun time.Duration) bool {
	if r.o.For > 0 {
		return n == 0 || r.now()-begun < r.o.For
	}
	return n < r.o.Rounds
}

func (r *run) roundName(n int, begun time.Duration) string {
	if r.o.For > 0 {
		return fmt.Sprintf("round %d, %s of %s", n+1, (r.now() - begun).Round(time.Second), r.o.For)
	}
	return fmt.Sprintf("round %d of %d", n+1, r.o.Rounds)
}

// cut ends the window and measures it.
func (r *run) cut() round {
	w, end := r.probe.cut()
	arrived, processed := r.feed.take(end), r.probe.takeProcessed(end)
	done := round{length: end - w.begin, window: w}
	for i := range w.tallies {
		var worst gap
		for p, good := range w.tallies[i].good {
			if g := longestGap(w.begin, end, good); g.length > worst.length {
				worst = gap{partition: p, from: g.from - w.begin, length: g.length}
			}
		}
		w.tallies[i].good = nil
		done.gaps = append(done.gaps, worst)
	}
	for p := range arrived {
		done.stall = max(done.stall, longestStall(w.begin, end, arrived[p], processed[p]))
	}
	return done
}

// showLogs shows the ends of all logs.
func (r *run) showLogs() {
	show := func(name string) {
		_, _ = fmt.Fprintf(r.errs, "the end of %s:\n%s\n", filepath.Base(name), logTail(name))
	}
	for _, m := range r.members() {
		show(m.spec.Log)
	}
	if r.broker != nil {
		show(r.brokerLog())
	}
}

func (r *run) members() []*member {
	all := append(append([]*member(nil), r.nodes...), r.routers...)
	if r.spare != nil {
		all = append(all, r.spare)
	}
	return all
}

// end kills all that the run has started: what they would still do is of no use to anybody.
func (r *run) end(ctx context.Context) error {
	var err error
	for _, c := range append(r.asking, r.readers...) {
		err = errors.Join(err, c.Close())
	}
	for _, m := range r.members() {
		m.kill()
	}
	if r.kafka != nil {
		r.kafka.Close()
	}
	if r.broker != nil {
		r.brokerEnds.Store(true)
		r.broker.Kill()
	}
	if r.net != nil {
		ctx, cancel := context.WithTimeout(ctx, removeTimeout)
		defer cancel()
		err = errors.Join(err, r.net.remove(ctx))
	}
	return errors.Join(err, r.endMixed(ctx))
}
