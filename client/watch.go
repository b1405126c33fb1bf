package client

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// EventKind is what a watch tells of.
type EventKind int8

// The kinds of events.
const (
	// EventEntry is an entry as it is, or has become: Event.Row.
	EventEntry EventKind = iota
	// EventRemoved is an entry that is gone: Event.Row has its key and times.
	EventRemoved
	// EventCurrent says that all that was there in Event.Partitions has been told now: what follows of them are changes.
	EventCurrent
	// EventResumed says that the stream broke, with Event.Err, and goes on, perhaps at another router. Nothing is lost, and
	// nothing told again, but for Event.Partitions: their first part, what was there, was not through yet and begins anew, so
	// what was told of them before is void.
	EventResumed
)

// String is the kind as logs write it.
func (k EventKind) String() string {
	switch k {
	case EventEntry:
		return "entry"
	case EventRemoved:
		return "removed"
	case EventCurrent:
		return "current"
	case EventResumed:
		return "resumed"
	default:
		return "event(" + strconv.Itoa(int(k)) + ")"
	}
}

// Event is one thing that a watch tells.
type Event struct {
	Kind EventKind
	// Row is the entry of EventEntry and EventRemoved.
	Row Row
	// Partitions are those of EventCurrent and EventResumed.
	Partitions []int32
	// Err is why the stream broke before EventResumed.
	Err error
}

// Watcher follows what a store has. It is not safe for concurrent use.
type Watcher struct {
	c       *Client
	session *Session
	r       *read
	err     error // wrong options
	ctx     func() context.Context

	events    []Event // received and not yet taken
	positions map[int32]int64
	next      map[int32]int64 // positions once events are taken
	current   map[int32]bool
	begun     map[int32]bool // partitions of which something was told
	reads     reads
}

// Watch tells what a store has now, and then every committed change of it, until its context ends. Options say of which
// keys, and which replicas may tell.
//
//	for event, err := range c.Watch(ctx, "by-dest", client.Key([]byte("ATL"))).Events() { ... }
//
// A stream that breaks is gone on with at another router from the last positions, and EventResumed says so. The loop ends
// with an error when nobody lets it go on for MaxResume, when it cannot be gone on with, as iqerr.ErrPageLost says, and when
// its context ends.
func (c *Client) Watch(ctx context.Context, store string, opts ...ReadOption) *Watcher {
	return c.watchIn(ctx, nil, store, opts)
}

// Watch is Client.Watch in the session: it begins at a replica that has what the session has seen and written.
func (s *Session) Watch(ctx context.Context, store string, opts ...ReadOption) *Watcher {
	return s.c.watchIn(ctx, s, store, opts)
}

func (c *Client) watchIn(ctx context.Context, session *Session, store string, opts []ReadOption) *Watcher {
	w := &Watcher{
		c: c, session: session, ctx: func() context.Context { return ctx },
		positions: map[int32]int64{}, current: map[int32]bool{}, begun: map[int32]bool{}, reads: reads{},
	}
	w.r, w.err = c.readWide(callWatch, session, store, opts)
	maps.Copy(w.positions, w.r.wide.from)
	for p := range w.positions {
		w.begun[p] = true
	}
	w.next = maps.Clone(w.positions)
	return w
}

// Events are the events. The loop's last pair is an error. A loop that was left, or ended with an error, can be gone on with by
// another one over Events: nothing is told again.
func (w *Watcher) Events() iter.Seq2[Event, error] { return w.run }

// Positions go on after the last event that a loop over Events has handed over, with Positions, in this or another process. Of
// a loop that was left midway some of the last changes come again. A partition is missing that is not current yet.
func (w *Watcher) Positions() map[int32]int64 {
	if len(w.events) > 0 {
		return maps.Clone(w.positions)
	}
	return maps.Clone(w.next)
}

// Reads says for each partition which replica tells of it.
func (w *Watcher) Reads() []*iqv1.PartitionRead { return w.reads.sorted() }

func (w *Watcher) run(yield func(Event, error) bool) {
	if w.err != nil {
		yield(Event{}, w.err)
		return
	}
	if !w.hand(yield) {
		return
	}
	ctx, again := w.ctx(), resumption{tries: w.c.newTries()}
	for {
		started := time.Now()
		worked, err := w.follow(ctx, again.tries, again.broken, yield)
		if errors.Is(err, errTaken) {
			return
		}
		if err := again.after(ctx, worked, err, time.Since(started)); err != nil {
			yield(Event{}, err)
			return
		}
	}
}

// hand hands over what was received. It returns false when the caller ends the loop.
func (w *Watcher) hand(yield func(Event, error) bool) bool {
	for len(w.events) > 0 {
		e := w.events[0]
		w.events = w.events[1:]
		if !yield(e, nil) {
			return false
		}
	}
	return true
}

// follow takes what one target sends, until its stream breaks. It says whether anything came.
func (w *Watcher) follow(ctx context.Context, tries *tries, broken error, yield func(Event, error) bool) (worked bool, err error) {
	ctx, l := tries.listen(ctx, w.r.wait())
	defer l.close()
	req, err := w.request(ctx)
	if err != nil {
		return false, err
	}
	stream, err := tries.target().query.Watch(ctx, req)
	if err != nil {
		return false, silent(ctx, err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return worked, silent(ctx, err) // io.EOF too: a watch has no end
		}
		l.heard()
		tries.progressed()
		if !worked && broken != nil {
			w.events = append(w.events, w.resumed(broken))
		}
		worked = true
		w.take(m)
		if !w.hand(yield) {
			return worked, errTaken
		}
		l.listen()
	}
}

// request goes on where the last message has led.
func (w *Watcher) request(ctx context.Context) (*iqv1.WatchRequest, error) {
	if w.session != nil {
		if err := w.session.begin(ctx, w.r); err != nil {
			return nil, err
		}
	}
	req := &iqv1.WatchRequest{Selection: &w.r.wide.selection, Policy: w.r.get.Policy, ChangesOnly: w.r.wide.changesOnly}
	for _, p := range slices.Sorted(maps.Keys(w.next)) {
		req.From = append(req.From, &iqv1.PartitionPosition{Partition: p, Position: w.next[p]})
	}
	return req, nil
}

// resumed is the event of a stream that goes on. Partitions that have no position to go on from begin anew.
func (w *Watcher) resumed(broken error) Event {
	e := Event{Kind: EventResumed, Err: broken}
	for _, p := range slices.Sorted(maps.Keys(w.begun)) {
		if _, ok := w.next[p]; !ok {
			e.Partitions = append(e.Partitions, p)
			delete(w.begun, p)
		}
	}
	return e
}

// take makes events of a message.
func (w *Watcher) take(m *iqv1.WatchResponse) {
	w.positions = maps.Clone(w.next)
	w.reads.note(m.GetReads())
	if w.session != nil {
		for _, r := range m.GetReads() {
			w.session.saw(w.r.get.GetStore(), r.GetInputPosition())
		}
	}
	for _, e := range m.GetEvents() {
		kind := EventEntry
		if e.GetRemoved() {
			kind = EventRemoved
		}
		w.begun[e.GetRow().GetPartition()] = true
		w.events = append(w.events, Event{Kind: kind, Row: rowOf(e.GetRow())})
	}
	for _, p := range m.GetPositions() {
		w.begun[p.GetPartition()] = true
		w.next[p.GetPartition()] = p.GetPosition()
	}
	current := Event{Kind: EventCurrent}
	for _, p := range m.GetCurrent() {
		if !w.current[p] { // a stream that goes on may say so again
			w.current[p] = true
			current.Partitions = append(current.Partitions, p)
		}
	}
	if len(current.Partitions) > 0 {
		w.events = append(w.events, current)
	}
}
