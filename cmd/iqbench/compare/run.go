package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/iqgate/iqgate/bench/peer"
	"github.com/iqgate/iqgate/partitioner"
)

// ErrFailed ends a run in which something could not be measured. The report says what.
var ErrFailed = errors.New("something could not be measured")

// A run is one comparison.
type run struct {
	o        Options
	size     size
	errs     io.Writer
	dir, bin string
	begin    time.Time

	broker   broker
	brokers  string
	kafka    *kgo.Client
	admin    *kadm.Client
	program  *peer.Program // built when it is first needed
	keys     []string
	requests [][]byte // of all keys
	sample   [][]byte // of one key of each partition
	apps     int      // so many applications have had a name

	members  []*member      // of the group, started
	subjects map[string]any // of the group, by name

	need    map[string]bool // figures
	figures *figures
	round   int
	load    [2]float64 // the least and the most that the machine's load was before a measure
	failed  bool
}

// A measure takes figures of one subject.
type measure interface {
	// gives names the figures that it can take.
	gives() []string
	// take measures once and adds a value for each figure that is needed. It starts what it needs, which stays until the
	// group's last round. It returns a [*missingError] where the product, or this run, lacks what would be measured.
	take(ctx context.Context, r *run) error
}

// A group is measures that alternate. What they start stays until the last round of all of them.
type group []measure

// groups are all measures: lookups, lives of one process, a standby, and lookups while a node processes.
func groups() []group {
	return []group{
		{
			nodeReads{},
			streamsReads{},
			echoReads{},
			routerReads{},
			remoteReads{},
			proxyReads{},
			nodeLookups{},
			routerLookups{},
		},
		{nodeLife{}, streamsLife{}, peerBootstrap{}},
		{standbyLag{}},
		{busyReads{}},
		{manyReads{}},
		{overload{}},
	}
}

// missing is what the product does not have.
type missing struct{ figure, why string }

func (m missing) gives() []string                  { return []string{m.figure} }
func (m missing) take(context.Context, *run) error { return &missingError{m.why} }

// A missingError says what the product, or this run, lacks for a measure. It is no failure of the run.
type missingError struct{ why string }

func (e *missingError) Error() string { return e.why }

// Run compares and prints the result on out and progress on errs. It returns an [*OptionError] for bad options, and ErrFailed
// when something could not be measured, which has been printed. After any end no process is left.
func Run(ctx context.Context, o Options, out, errs io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	tuneGC()
	if err := setNice(o.Nice); err != nil {
		return &OptionError{err}
	}
	dir, err := os.MkdirTemp("", "iqbench-")
	if err != nil {
		return err
	}
	r := &run{o: o, size: o.size(), errs: errs, dir: dir, begin: time.Now(), figures: newFigures(), subjects: map[string]any{}}
	rep, err := r.play(ctx)
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	r.end()
	if o.Keep {
		r.say("logs and stores are kept in " + dir)
	} else {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return err
	}
	return r.publish(rep, out)
}

// publish writes the result to wherever it is wanted.
func (r *run) publish(rep report, out io.Writer) error {
	if r.o.Report != "" {
		if err := rep.save(r.o.Report); err != nil {
			return err
		}
		r.say("the report is in " + r.o.Report)
	}
	text := rep.text()
	if r.o.JSON {
		line, err := rep.jsonLine()
		if err != nil {
			return err
		}
		text = line
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if r.failed {
		return ErrFailed
	}
	return nil
}

// play is the run but for its end.
func (r *run) play(ctx context.Context) (report, error) {
	table, extra := chosen(rows(), r.o.Only), chosen(references(), r.o.Only)
	r.need = needed(append(slices.Clone(table), extra...))
	m := aboutMachine(ctx)
	if err := r.prepare(ctx); err != nil {
		return report{}, err
	}
	for _, g := range groups() {
		if err := r.playGroup(ctx, g); err != nil {
			return report{}, err
		}
	}
	m.LoadMin, m.LoadMax = r.load[0], r.load[1]
	if r.program != nil {
		m.Java = r.program.Version
	}
	rep := report{Quick: r.o.Quick, Rounds: r.o.Rounds, Kafka: r.o.Kafka, Records: r.size.records, Machine: m, Seconds: time.Since(r.begin).Seconds()}
	for _, one := range table {
		rep.Rows = append(rep.Rows, judged(one, r.figures))
	}
	for _, one := range extra {
		rep.References = append(rep.References, judged(one, r.figures))
	}
	return rep, nil
}

// prepare starts the Kafka and finds or builds the programs.
func (r *run) prepare(ctx context.Context) error {
	for i := range r.size.keys {
		r.keys = append(r.keys, fmt.Sprintf("key-%07d", i))
	}
	var err error
	if r.requests, err = requests(store, r.keys); err != nil {
		return err
	}
	for _, keys := range r.byPartition() {
		r.sample = append(r.sample, r.requests[slices.Index(r.keys, keys[0])])
	}
	if r.bin, err = programs(ctx, r.o.Bin, r.dir); err != nil {
		return err
	}
	if err := r.startKafka(ctx); err != nil {
		return err
	}
	return r.writeEvents(ctx)
}

// byPartition is the keys by the partition that they are in.
func (r *run) byPartition() [][]string {
	all := make([][]string, r.size.partitions)
	for _, key := range r.keys {
		p := partitioner.Murmur2().Partition([]byte(key), int32(r.size.partitions))
		all[p] = append(all[p], key)
	}
	return all
}

// playGroup plays the rounds of a group and ends what it has started.
func (r *run) playGroup(ctx context.Context, g group) error {
	defer r.endGroup()
	for r.round = range r.o.Rounds {
		order := slices.Clone(g)
		if r.round%2 == 1 {
			slices.Reverse(order)
		}
		for _, m := range order {
			if !r.wants(m.gives()...) {
				continue
			}
			r.noteLoad()
			err := m.take(ctx, r)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				r.without(m, err)
			}
		}
	}
	return nil
}

// without notes that a measure could not be taken: figures that it has not given in this round are missing, with those of
// earlier rounds, and are not tried again. What it gave before it failed stays.
func (r *run) without(m measure, err error) {
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	if _, lacking := errors.AsType[*missingError](err); !lacking {
		r.failed = true
		r.say(fmt.Sprintf("FAILED: %s: %s", strings.Join(m.gives(), ", "), text))
		r.showLogs()
	}
	for _, figure := range m.gives() {
		if r.need[figure] && len(r.figures.values[figure]) <= r.round {
			r.figures.missing[figure] = text
			delete(r.figures.values, figure)
		}
	}
}

// give adds a figure of the round.
func (r *run) give(figure string, value float64) {
	if r.wants(figure) {
		r.figures.values[figure] = append(r.figures.values[figure], value)
	}
}

// wants says whether any of the figures is needed, and has not turned out to be missing.
func (r *run) wants(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return r.need[name] && r.figures.missing[name] == "" })
}

// subject is what start has made under a name in this group, or makes now.
func subject[T any](r *run, name string, start func() (T, error)) (T, error) {
	if s, ok := r.subjects[name].(T); ok {
		return s, nil
	}
	s, err := start()
	if err == nil {
		r.subjects[name] = s
	}
	return s, err
}

// app is a new application's name.
func (r *run) app(of string) string {
	r.apps++
	return fmt.Sprintf("iqbench-%s-%d", of, r.apps)
}

// file is a path in the run's folder.
func (r *run) file(name string) string { return filepath.Join(r.dir, name) }

// say tells of progress.
func (r *run) say(text string) {
	_, _ = fmt.Fprintf(r.errs, "%6.1fs  %s\n", time.Since(r.begin).Seconds(), text)
}

// noteLoad keeps the machine's load.
func (r *run) noteLoad() {
	now := loadAverage()
	if r.load == [2]float64{} {
		r.load = [2]float64{now, now}
	}
	r.load = [2]float64{min(r.load[0], now), max(r.load[1], now)}
}

// showLogs shows the ends of the logs of what runs.
func (r *run) showLogs() {
	for _, m := range r.members {
		_, _ = fmt.Fprintf(r.errs, "the end of %s:\n%s\n", filepath.Base(m.spec.Log), logTail(m.spec.Log))
	}
}

// endGroup kills all that a group has started.
func (r *run) endGroup() {
	for _, s := range r.subjects {
		if c, ok := s.(io.Closer); ok {
			_ = c.Close() // connections
		}
	}
	for _, m := range r.members {
		m.kill()
	}
	r.members, r.subjects = nil, map[string]any{}
}

// end kills all that the run has started.
func (r *run) end() {
	r.endGroup()
	if r.kafka != nil {
		r.kafka.Close()
	}
	if r.broker != nil {
		r.broker.Kill()
	}
}
