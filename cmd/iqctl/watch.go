package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
)

// watchFlags are the flags of watch.
type watchFlags struct {
	readFlags
	prefix      string
	partitions  []int32
	changesOnly bool
	positions   []string
	count       int64
}

func newWatchCommand(a *app) *cobra.Command {
	var w watchFlags
	cmd := &cobra.Command{
		Use:   "watch STORE [KEY]",
		Short: "Print what a store has, and then every committed change as it comes",
		Long: `watch prints the value of a key, or all entries of a store or of a prefix, and then every committed change as it
comes, until Ctrl-C or after --count lines. When a router or replica breaks off it goes on at another without loss, and says so on
the standard error. At the end it prints there from which positions another watch goes on.

-o json prints an object a line: "event" is entry, removed, current (all that was there has been printed) or resumed. -o raw
prints the values of entries, each with a line feed.`,
		Example: `  iqctl watch by-dest ATL
  iqctl watch orders --prefix eu- --changes-only -o json
  iqctl watch orders --position 0@1500,1@1320`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return exactArgs("STORE")(cmd, args)
			}
			return exactArgs("STORE", "KEY")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.watch(cmd.Context(), cmd, &w, args) },
	}
	w.addPolicy(cmd)
	w.addKeyFormat(cmd)
	w.addValueFormat(cmd)
	w.addHex(cmd)
	f := cmd.Flags()
	f.StringVar(&w.prefix, "prefix", "", "only keys whose bytes begin with those of this text; 0x and hexadecimal digits for any bytes")
	f.Int32SliceVar(&w.partitions, "partition", nil, "only these store partitions, several with commas (default: all)")
	f.BoolVar(&w.changesOnly, "changes-only", false, "leave out what is there now")
	f.StringSliceVar(&w.positions, "position", nil, "go on from where another watch ended: PARTITION@POSITION, several with commas")
	f.Int64Var(&w.count, "count", 0, "end after so many entries and removals (default: never)")
	return takesRaw(cmd)
}

func (a *app) watch(ctx context.Context, cmd *cobra.Command, w *watchFlags, args []string) error {
	if w.count < 0 {
		return usage(cmd, fmt.Errorf("--count %d: must not be negative", w.count))
	}
	opts, err := w.watchOptions(cmd)
	if err != nil {
		return err
	}
	ended := ctx // by Ctrl-C
	ctx, c, done, err := a.connectStream(ctx)
	if err != nil {
		return err
	}
	defer done()
	f, err := w.formats(ctx, c, args[0])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		key, err := f.parseKey(args[1])
		if err != nil {
			return err
		}
		opts = append(opts, client.Key(key))
	}
	watcher := c.Watch(ctx, args[0], opts...)
	err = a.printEvents(watcher, f, w.count)
	if errors.Is(err, context.Canceled) && ended.Err() != nil {
		err = nil
	}
	if text := positionsText(watcher.Positions()); text != "" && !a.json() {
		(&printer{w: a.errs}).line("go on with: --position " + text)
	}
	return err
}

func (w *watchFlags) watchOptions(cmd *cobra.Command) ([]client.ReadOption, error) {
	opts, err := w.options(cmd)
	if err != nil {
		return nil, err
	}
	if cmd.Flags().Changed("prefix") {
		prefix, err := parsePrefix(w.prefix, w.hex)
		if err != nil {
			return nil, usage(cmd, fmt.Errorf("--prefix %q: %w", w.prefix, err))
		}
		opts = append(opts, client.Prefix(prefix))
	}
	if len(w.partitions) > 0 {
		opts = append(opts, client.Partitions(w.partitions...))
	}
	if w.changesOnly {
		opts = append(opts, client.ChangesOnly())
	}
	from := map[int32]int64{}
	for _, text := range w.positions {
		number, at, _ := strings.Cut(text, "@")
		p, err1 := strconv.ParseInt(number, 10, 32)
		position, err2 := strconv.ParseInt(at, 10, 64)
		if err1 != nil || err2 != nil || p < 0 || position < 0 {
			return nil, usage(cmd, fmt.Errorf("--position %q: must be PARTITION@POSITION, such as 2@1500", text))
		}
		from[int32(p)] = position
	}
	if len(from) > 0 {
		opts = append(opts, client.Positions(from))
	}
	return opts, nil
}

// eventJSON is one event of a watch.
type eventJSON struct {
	Event string `json:"event"`
	*shape.Row
	Partitions []int32          `json:"partitions,omitempty"`
	Positions  map[string]int64 `json:"positions,omitempty"`
	Message    string           `json:"message,omitempty"`
}

// printEvents prints events as they come, most of them if that is positive.
func (a *app) printEvents(w *client.Watcher, f formats, most int64) error {
	p := &printer{w: a.out}
	table := liveTable{p: p, live: true}
	var n int64
	for e, err := range w.Events() {
		if err != nil {
			return err
		}
		switch {
		case a.json():
			err = printLine(a.out, eventShape(f, e, w))
		case e.Kind == client.EventResumed:
			(&printer{w: a.errs}).line(resumedText(e))
		case e.Kind == client.EventCurrent:
		case a.raw():
			if e.Kind == client.EventEntry {
				p.write(string(e.Row.Value) + "\n")
			}
		default:
			timed := !e.Row.Start.IsZero()
			if table.heading == nil {
				table.heading = []string{"TIMESTAMP", "PARTITION", "KEY", "VALUE"}
				if timed {
					table.heading = []string{"TIMESTAMP", "PARTITION", "KEY", "START", "END", "VALUE"}
				}
			}
			table.row(eventCells(f, e, len(table.heading) > 4)...)
		}
		if err = errors.Join(err, p.err); err != nil {
			return err
		}
		if e.Kind == client.EventEntry || e.Kind == client.EventRemoved {
			if n++; n == most {
				break
			}
		}
	}
	return nil
}

func eventCells(f formats, e client.Event, timed bool) []string {
	value, stamp := "(removed)", ""
	if e.Kind == client.EventEntry {
		value, _ = f.text(e.Row.Value)
		stamp = timeText(e.Row.Timestamp)
	}
	cells := []string{stamp, strconv.Itoa(int(e.Row.Partition)), f.keyText(e.Row.Key)}
	if timed {
		cells = append(cells, timeText(e.Row.Start), timeText(e.Row.End))
	}
	return append(cells, value)
}

func eventShape(f formats, e client.Event, w *client.Watcher) eventJSON {
	s := eventJSON{Event: e.Kind.String(), Partitions: e.Partitions}
	switch e.Kind {
	case client.EventEntry:
		s.Row = new(rowShape(f, e.Row, false))
	case client.EventRemoved:
		s.Row = new(rowShape(f, e.Row, true))
		s.Timestamp = nil // no record that is there has it
	case client.EventCurrent:
		s.Positions = map[string]int64{}
		for p, position := range w.Positions() {
			s.Positions[strconv.Itoa(int(p))] = position
		}
	case client.EventResumed:
		s.Message = resumedText(e)
	}
	return s
}

func resumedText(e client.Event) string {
	_, headline := iqerr.RefusalsOf(e.Err)
	text := "resumed after: " + oneLine(headline)
	if len(e.Partitions) > 0 {
		text += fmt.Sprintf("; begun anew: partitions %v", e.Partitions)
	}
	return text
}

// positionsText is what --position takes.
func positionsText(positions map[int32]int64) string {
	var parts []string
	for _, p := range slices.Sorted(maps.Keys(positions)) {
		parts = append(parts, fmt.Sprintf("%d@%d", p, positions[p]))
	}
	return strings.Join(parts, ",")
}
