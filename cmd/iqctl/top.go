package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/gateway/shape"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

const (
	defaultTopInterval = time.Second
	minTopInterval     = 100 * time.Millisecond
	// resizeCheck is how often a terminal is asked for its size.
	resizeCheck = 250 * time.Millisecond
	// keyQueue is how many keys may wait for a screen that is being drawn.
	keyQueue = 64
)

func newTopCommand(a *app) *cobra.Command {
	var interval time.Duration
	var count int64
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show nodes and replicas live: roles, lags and rates",
		Long: `top shows the nodes and every replica with its role, how far behind it is and how fast it moves, and draws all that
again as it changes. The keys are told by h; q ends it. It needs a terminal of any size, also over ssh, and heeds $NO_COLOR.

Where it does not write to a terminal it prints everything once an interval, and with -o json an object a line; then --count ends
it.

RATE is the changelog offsets a second that a replica takes in; for an active, what it writes.`,
		Example: "  iqctl top\n  iqctl top --interval 5s\n  iqctl top --count 1 -o json",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < minTopInterval {
				return usage(cmd, fmt.Errorf("--interval %s: must be at least %s", interval, minTopInterval))
			}
			if count < 0 {
				return usage(cmd, fmt.Errorf("--count %d: must not be negative", count))
			}
			return a.top(cmd.Context(), interval, count)
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", defaultTopInterval, "time between two screens, at least 100ms")
	cmd.Flags().Int64Var(&count, "count", 0, "end after so many screens (default: never)")
	return cmd
}

func (a *app) top(ctx context.Context, interval time.Duration, count int64) error {
	ended := ctx // by Ctrl-C
	ctx, c, done, err := a.connectStream(ctx)
	if err != nil {
		return err
	}
	defer done()
	t := &top{
		view: newTopView(), source: strings.Join(a.routers, ","), interval: interval, count: count,
		told: func(ctx context.Context) iter.Seq2[*iqv1.WatchMetadataResponse, error] {
			return c.WatchMetadata(ctx, "", interval)
		},
	}
	switch {
	case a.json():
		t.show = func(now time.Time) error { return printLine(a.out, t.view.shape(now)) }
	case a.terminal == nil:
		t.show = func(now time.Time) error {
			p := &printer{w: a.out}
			for _, line := range t.view.frame(unbounded, unbounded, t.source, "", now) {
				p.line(line.text)
			}
			p.line("")
			return p.err
		}
	default:
		s, err := a.terminal()
		if err != nil {
			return err
		}
		defer s.close()
		t.screen, t.colour = s, a.getenv("NO_COLOR") == ""
		t.show = t.draw
	}
	if err := t.run(ctx); err != nil && ended.Err() == nil {
		return err
	}
	return nil
}

// A top is the command while it runs.
type top struct {
	view     *topView
	source   string
	interval time.Duration
	count    int64                                                                   // screens after which it ends; 0 is never
	told     func(ctx context.Context) iter.Seq2[*iqv1.WatchMetadataResponse, error] // until ctx ends
	show     func(now time.Time) error

	screen *screen // nil where there is no terminal
	colour bool
	heard  time.Time // when something was told last
	drawn  []topLine // what stands on the screen
	width  int
	height int
}

// A toldOrEnd is a message, or why there are no more.
type toldOrEnd struct {
	message *iqv1.WatchMetadataResponse
	err     error
}

// run shows what is told until a key, the count or the end of ctx. The first screen waits for the first message; from then on
// there is one an interval, and on a terminal one after each key too.
func (t *top) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	messages := make(chan toldOrEnd)
	go func() {
		defer close(messages)
		for m, err := range t.told(ctx) {
			select {
			case messages <- toldOrEnd{m, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		cancel()
		for range messages { // until the watch has ended
		}
	}()
	var keys <-chan string
	if t.screen != nil {
		keys = t.screen.keys
		if err := t.show(time.Now()); err != nil {
			return err
		}
	}
	var held []*iqv1.WatchMetadataResponse // while paused
	tick, resize := time.NewTicker(t.interval), time.NewTicker(resizeCheck)
	defer tick.Stop()
	defer resize.Stop()
	first := true
	for {
		due := false
		select {
		case m, open := <-messages:
			if !open || m.err != nil {
				return m.err
			}
			t.heard = time.Now()
			if held = append(held, m.message); !t.view.paused {
				t.takeAll(held)
				held = nil
			} else if m.message.GetSnapshot() || len(held) > maxHeld {
				held = merged(held)
			}
			due, first = first, false
			if due {
				tick.Reset(t.interval)
			}
		case <-tick.C:
			due = !first
		case <-resize.C:
			if t.screen != nil {
				if w, h := t.screen.size(); w != t.width || h != t.height {
					if err := t.show(time.Now()); err != nil {
						return err
					}
				}
			}
		case key := <-keys:
			if t.view.key(key) {
				return nil
			}
			if !t.view.paused {
				t.takeAll(held)
				held = nil
			}
			if err := t.show(time.Now()); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		if due {
			if err := t.show(time.Now()); err != nil {
				return err
			}
			if t.count--; t.count == 0 {
				return nil
			}
		}
	}
}

// maxHeld is how many messages are kept apart while the screen is paused.
const maxHeld = 100

func (t *top) takeAll(held []*iqv1.WatchMetadataResponse) {
	for _, m := range held {
		t.view.take(m, time.Now())
	}
}

// merged is one message that tells what several do, one after the other.
func merged(held []*iqv1.WatchMetadataResponse) []*iqv1.WatchMetadataResponse {
	all := &iqv1.WatchMetadataResponse{}
	last := make(map[string]*iqv1.Instance)
	gone := make(map[string]bool)
	for _, m := range held {
		if m.GetSnapshot() {
			all = &iqv1.WatchMetadataResponse{Snapshot: true}
			clear(last)
			clear(gone)
		}
		if len(m.GetStores()) > 0 {
			all.Stores = m.GetStores()
		}
		for _, id := range m.GetGone() {
			delete(last, id)
			gone[id] = true
		}
		for _, i := range m.GetInstances() {
			last[i.GetNode()] = i
			delete(gone, i.GetNode())
		}
	}
	for id := range gone {
		all.Gone = append(all.Gone, id)
	}
	for _, i := range last {
		all.Instances = append(all.Instances, i)
	}
	return []*iqv1.WatchMetadataResponse{all}
}

// silentFor is how long a router may tell nothing before the screen says so; it tells something each second at least.
const silentFor = 5 * time.Second

// silence says that what is shown is old; empty while it is not.
func (t *top) silence(now time.Time) string {
	if silent := now.Sub(t.heard); !t.heard.IsZero() && silent > t.interval+silentFor {
		return fmt.Sprintf("nothing was told for %s: this is how it was", silent.Round(time.Second))
	}
	return ""
}

// colours of the styles, for terminals.
var colours = map[topStyle]string{styleHead: "\x1b[1m", styleBad: "\x1b[31m", styleWarn: "\x1b[33m"}

// draw brings the screen to what the view shows now. Only lines that differ are sent: over ssh that is little.
func (t *top) draw(now time.Time) error {
	w, h := t.screen.size()
	lines := t.view.frame(w, h, t.source, t.silence(now), now)
	var b strings.Builder
	if w != t.width || h != t.height {
		b.WriteString("\x1b[2J")
		t.drawn, t.width, t.height = nil, w, h
	}
	for i, line := range lines {
		if i < len(t.drawn) && t.drawn[i] == line {
			continue
		}
		text := line.text
		if on := colours[line.style]; on != "" && t.colour {
			text = on + text + "\x1b[0m"
		}
		fmt.Fprintf(&b, "\x1b[%d;1H%s\x1b[K", i+1, text)
	}
	t.drawn = lines
	_, err := io.WriteString(t.screen.out, b.String())
	return err
}

// topJSON is a screen.
type topJSON struct {
	TimeMs    int64         `json:"time_ms"`
	Instances []nodeSummary `json:"instances"`
	Replicas  []topReplica  `json:"replicas"`
}

// topReplica is a replica with how fast it moves.
type topReplica struct {
	*shape.Replica
	OffsetsPerSecond *float64 `json:"offsets_per_second"`
}

func (v *topView) shape(now time.Time) topJSON {
	s := topJSON{TimeMs: now.UnixMilli(), Instances: []nodeSummary{}, Replicas: []topReplica{}}
	for _, i := range v.sorted() {
		s.Instances = append(s.Instances, summarise(i))
		for _, r := range i.GetReplicas() {
			one := topReplica{Replica: shape.ReplicaOf(r)}
			if x := v.rates[replicaKey{i.GetNode(), r.GetStore(), r.GetPartition()}]; x.known {
				one.OffsetsPerSecond = &x.perSecond
			}
			s.Replicas = append(s.Replicas, one)
		}
	}
	return s
}
