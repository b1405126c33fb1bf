package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/cmd/internal/cluster"
	"github.com/iqgate/iqgate/cmd/internal/human"
	"github.com/iqgate/iqgate/integration/kafkabroker"
)

// overtime is how much longer than asked for a run may take until what was killed is back.
const overtime = 20 * time.Second

// errNotExact ends a run whose stores are not what the file says. All that is to be said has been printed.
var errNotExact = errors.New("the stores are not what the file says")

// errInterrupted ends a run that a signal ended.
var errInterrupted = errors.New("interrupted")

// A run is one run of the demo.
type run struct {
	o       Options
	flights *flights
	screen  *screen
	names   names
	dir     string
	fleet   *fleet
	broker  *kafkabroker.Broker // with --kafka real

	brokers, router string // addresses
	kafka           *kgo.Client
	admin           *kadm.Client
	created         bool        // topics, perhaps
	ending          atomic.Bool // all is being stopped
	client          *client.Client
	nodes           map[string]*child // the kill's alone once all have started

	begin     atomic.Int64 // Unix nanoseconds; when the start began, then when feeding and reading did
	fed       atomic.Int64
	processed atomic.Int64
	view      atomic.Pointer[cluster.Cluster]
	readers   []*reader
	known     sync.Map // partition to a key of it that has been read
	kill      killing
}

// now is the time since feeding and reading began.
func (r *run) now() time.Duration { return time.Duration(time.Now().UnixNano() - r.begin.Load()) }

// Run runs the demo and shows it on w. It returns an [*OptionError] for bad options, and after any end no process is left.
func Run(ctx context.Context, o Options, flightsGz []byte, w io.Writer) (err error) {
	f, err := parseFlights(flightsGz)
	if err != nil {
		return err
	}
	if err := o.check(len(f.lines)); err != nil {
		return err
	}
	dir, temporary, err := makeDir(o.StateDir)
	if err != nil {
		return err
	}
	r := &run{o: o, flights: f, dir: dir, names: namesFor(o.Kafka, time.Now()), fleet: newFleet(), nodes: make(map[string]*child)}
	r.begin.Store(time.Now().UnixNano())
	r.screen = newScreen(w, r.now)
	for _, p := range policies {
		r.readers = append(r.readers, &reader{policy: p})
	}

	// The first signal ends ctx, through main; a second one ends the patience with the children.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case died := <-r.fleet.died:
			cancel(died)
		case <-ctx.Done():
		}
	}()

	err = r.play(ctx)
	if err != nil && ctx.Err() != nil {
		if err = context.Cause(ctx); errors.Is(err, context.Canceled) {
			err = errInterrupted
		}
	}
	r.screen.clear()
	if dead, ok := errors.AsType[*deathError](err); ok {
		r.screen.print("the end of " + dead.child.log + ":\n" + dead.tail + "\n")
	}
	err = errors.Join(err, r.end(context.WithoutCancel(ctx)))
	if temporary {
		if err == nil || errors.Is(err, errInterrupted) {
			err = errors.Join(err, os.RemoveAll(dir))
		} else if os.Remove(dir) != nil { // it is not empty
			r.screen.print("stores and logs are left in " + dir + "\n")
		}
	}
	return err
}

// makeDir gives the directory of the run, and whether it is to be removed.
func makeDir(dir string) (path string, temporary bool, err error) {
	if dir == "" {
		path, err = os.MkdirTemp("", "iqgate-demo-")
		return path, true, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", false, &OptionError{fmt.Errorf("--state-dir %q: %w", dir, err)}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", false, &OptionError{fmt.Errorf("--state-dir %q: %w", dir, err)}
	}
	if len(entries) > 0 {
		return "", false, &OptionError{fmt.Errorf("--state-dir %q: must be empty, and holds %s", dir, entries[0].Name())}
	}
	path, err = filepath.Abs(dir)
	return path, false, err
}

// play is the run from Kafka's start to the report.
func (r *run) play(ctx context.Context) error {
	r.screen.print(fmt.Sprintf("iqgate demo: %s flights in %s, %s, %s of each partition, Kafka %s\n",
		human.Thousands(int64(len(r.flights.lines))), r.o.Duration, human.Count(r.o.Nodes, "node"), human.Count(min(r.o.Standbys, r.o.Nodes-1), "standby"), r.o.Kafka))
	if err := r.startKafka(ctx); err != nil {
		return err
	}
	if err := r.startCluster(ctx); err != nil {
		return err
	}
	if instances, err := r.instances(ctx); err == nil {
		r.view.Store(cluster.Of(instances))
	}
	r.screen.event("all actives and standbys are running; feeding and reading begin, and the clock starts again")
	if !r.screen.terminal {
		r.screen.event("below, 4a+8s 90ms is 4 actives and 8 standbys, the one furthest behind by 90ms; r is restoring")
	}
	r.begin.Store(time.Now().UnixNano())

	end, err := r.work(ctx)
	if err != nil {
		return err
	}
	r.screen.event("reading every key of every store")
	v, err := r.verify(ctx)
	if err != nil {
		return err
	}
	report := r.result(v, end)
	r.screen.print(report.text(r.screen))
	if r.o.Keep {
		r.screen.print(r.keepText())
	}
	if r.o.JSON {
		line, err := report.json()
		if err != nil {
			return err
		}
		r.screen.print(line)
	}
	if r.o.Keep {
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return cause
		}
	}
	if !report.ExactlyOnce {
		return errNotExact
	}
	return nil
}

// work feeds, reads and kills for the duration, and goes on until all is fed and what was killed is back, but no longer
// than overtime. It returns when that was; reads that had begun then are waited for.
func (r *run) work(ctx context.Context) (end time.Duration, err error) {
	g, gctx := errgroup.WithContext(ctx)
	all, stopAll := context.WithCancel(gctx)
	defer stopAll()
	g.Go(func() error { return r.watch(all) })
	g.Go(func() error { return r.follow(all) })
	g.Go(func() error { return r.show(all) })
	for _, d := range r.readers {
		g.Go(func() error { return r.read(all, d) })
	}
	g.Go(func() error {
		defer stopAll()
		h, hctx := errgroup.WithContext(gctx)
		late, cancel := context.WithTimeout(hctx, r.o.Duration+overtime)
		defer cancel()
		h.Go(func() error { return r.feed(hctx) })
		h.Go(func() error { return r.killAndRestart(late) })
		h.Go(func() error {
			r.sleepUntil(hctx, r.o.Duration)
			return nil
		})
		err := h.Wait()
		end = r.now()
		return err
	})
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return end, ctx.Err()
}

// end stops all that the run has started.
func (r *run) end(ctx context.Context) error {
	r.ending.Store(true)
	hurry := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-signals:
			close(hurry)
		case <-ended:
		}
	}()
	var err error
	if r.client != nil {
		err = errors.Join(err, r.client.Close())
	}
	r.fleet.stopNodes(hurry)
	err = errors.Join(err, r.cleanKafka(ctx))
	if r.kafka != nil {
		r.kafka.Close()
	}
	r.fleet.stop(hurry)
	if r.broker != nil {
		err = errors.Join(err, r.broker.Stop())
	}
	return err
}
