package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/iqgate/iqgate/gateway/shape"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// headerLastEvent is where a caller of server-sent events says how far it has come.
const headerLastEvent = "Last-Event-ID"

// reconnectAfter is how long the caller of a watch that has broken off is asked to wait before it comes again.
const reconnectAfter = time.Second

// The events of a watch.
const (
	eventRead    = "read"
	eventEntry   = "entry"
	eventRemoved = "removed"
	eventCurrent = "current"
	eventEnd     = "end"
	eventError   = "error"
)

const eventsExample = `retry: 1000

event: read
data: {"partition":3,"served":null,"input_position":[]}

id: 3@988
event: entry
data: {"key":"ATL","value":1396,"value_format":"int64","timestamp_ms":1700000040000,"partition":3}

event: current
data: {"partitions":[3]}

`

// setLastEvent reads the positions of an event's id.
func (r *request) setLastEvent(text string) error {
	r.positions = nil
	for part := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		if err := r.addPosition(part); err != nil {
			return errors.New("is not the id of an event of a watch")
		}
	}
	return nil
}

// watcher is a watch under way.
type watcher struct {
	*call
	f         formats
	positions map[int32]int64 // to go on from, as far as they are known
	b         bytes.Buffer    // events that are not sent yet
	left      int64           // entries and removals until the end; none when count is 0
}

// errNotWatched is a watch that the router has ended as if all had come, which it never does.
var errNotWatched = errors.New("a watch that ends by itself")

// arrival is what came of the router's watch.
type arrival struct {
	resp *iqv1.WatchResponse
	err  error
}

// watch streams what is there and what changes.
//
//  1. Until the first message has come, or KeepAlive has passed, an error is the answer, with its status. Afterwards it is an
//     event, and the last one.
//  2. The events of one message are one write. The last one of them has the id: the positions to go on from are those after all
//     of the message, and an event without an id leaves the caller at the id before it. So what is sent again after a break is
//     what may not have been seen.
//  3. Comments keep the connection alive while nothing changes.
func (c *call) watch() error {
	m, f, err := c.watchRequest()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	stream, err := c.query.Watch(ctx, m)
	if err != nil {
		return err
	}
	arrivals := make(chan arrival)
	reader.Go(func() {
		for {
			resp, err := stream.Recv()
			select {
			case arrivals <- arrival{resp, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
	w := &watcher{call: c, f: f, positions: map[int32]int64{}, left: c.count}
	for _, p := range m.GetFrom() {
		w.positions[p.GetPartition()] = p.GetPosition()
	}
	return w.run(arrivals)
}

// watchRequest makes the request.
func (c *call) watchRequest() (*iqv1.WatchRequest, formats, error) {
	f, err := c.formats()
	if err != nil {
		return nil, f, err
	}
	selection := &iqv1.Selection{Store: c.store, Partitions: c.partitions}
	switch {
	case c.from != nil: // the parameter key
		key, err := f.parseKey("key", *c.from)
		if err != nil {
			return nil, f, err
		}
		selection.Keys = &iqv1.Selection_Key{Key: notNil(key)}
	case c.prefix != nil:
		prefix, err := parsePrefix(*c.prefix)
		if err != nil {
			return nil, f, err
		}
		selection.Keys = &iqv1.Selection_Prefix{Prefix: prefix}
	}
	return &iqv1.WatchRequest{Selection: selection, Policy: c.policy, From: c.positions, ChangesOnly: c.changesOnly}, f, nil
}

func (w *watcher) run(arrivals <-chan arrival) error {
	begun := false
	begin := func() {
		if begun {
			return
		}
		begun = true
		h := w.w.Header()
		h.Set("Content-Type", mediaEvents)
		h.Set("X-Accel-Buffering", "no") // proxies that know it pass events on as they come
		w.w.WriteHeader(http.StatusOK)
		fmt.Fprintf(&w.b, "retry: %d\n\n", reconnectAfter.Milliseconds())
	}
	alive := time.NewTicker(w.config.KeepAlive)
	defer alive.Stop()
	for {
		var err error
		select {
		case a := <-arrivals:
			switch {
			case errors.Is(a.err, io.EOF):
				err = errNotWatched
			case a.err != nil:
				err = a.err
			}
			if err == nil {
				begin()
				alive.Reset(w.config.KeepAlive)
				w.tell(a.resp)
			}
		case <-alive.C:
			begin()
			w.b.WriteString(": alive\n\n")
		case <-w.stopping:
			err = &iqerr.ClosingError{Node: "this router"}
		case <-w.Done():
			err = w.Err()
		}
		if err != nil && !begun && !w.timeIsOver(err) {
			return err
		}
		over := err != nil
		if over {
			begin()
			w.end(err)
		} else if w.count > 0 && w.left == 0 {
			over = true
			w.event(eventEnd, eventPositions{Positions: w.positions}, false)
		}
		if err := w.send(w.b.Bytes()); err != nil || over {
			return nil // who has gone needs no answer
		}
		w.b.Reset()
	}
}

// timeIsOver says whether a watch has ended as its timeout asks.
func (w *watcher) timeIsOver(err error) bool {
	return w.timeout > 0 && errors.Is(iqerr.FromStatus(err), context.DeadlineExceeded)
}

// end tells how the watch ended.
func (w *watcher) end(err error) {
	if w.timeIsOver(err) {
		w.event(eventEnd, eventPositions{Positions: w.positions}, false)
		return
	}
	w.event(eventError, statusJSON(asParameters(err)), false)
}

// eventPositions are positions to go on from, by partition.
type eventPositions struct {
	Positions map[int32]int64 `json:"positions" doc:"positions to go on from, by partition"`
}

// currentAnswer is the event that says that all that was there has come.
type currentAnswer struct {
	Partitions []int32 `json:"partitions" doc:"partitions of which all that was there has been sent: what follows are changes"`
}

// tell writes a message's events.
func (w *watcher) tell(resp *iqv1.WatchResponse) {
	events := resp.GetEvents()
	if w.count > 0 && int64(len(events)) > w.left { // the positions are those after all of the message
		resp.Positions, resp.Current, events = nil, nil, events[:w.left]
	}
	if w.count > 0 {
		w.left -= int64(len(events))
	}
	for _, p := range resp.GetPositions() {
		w.positions[p.GetPartition()] = p.GetPosition()
	}
	moved := len(resp.GetPositions()) > 0
	for _, r := range resp.GetReads() {
		w.event(eventRead, shape.ReadOf(r), false)
	}
	last := len(events) - 1
	for i, e := range events {
		name := eventEntry
		if e.GetRemoved() {
			name = eventRemoved
		}
		w.event(name, w.f.row(e.GetRow(), true, e.GetRemoved()), moved && i == last && len(resp.GetCurrent()) == 0)
	}
	switch {
	case len(resp.GetCurrent()) > 0:
		w.event(eventCurrent, currentAnswer{resp.GetCurrent()}, moved)
	case moved && last < 0:
		w.b.WriteString("id: " + w.id() + "\n\n") // without data: it moves the caller's last id and is no event
	}
}

// event writes an event.
func (w *watcher) event(name string, data any, id bool) {
	if id {
		w.b.WriteString("id: " + w.id() + "\n")
	}
	w.b.WriteString("event: " + name + "\ndata: ")
	if err := encodeTo(&w.b, data); err != nil {
		w.giveUp(err)
	}
	w.b.WriteByte('\n')
}

// id is the positions to go on from, as the parameter position takes them.
func (w *watcher) id() string {
	parts := make([]string, 0, len(w.positions))
	for p := range w.positions {
		parts = append(parts, fmt.Sprintf("%d@%d", p, w.positions[p]))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
