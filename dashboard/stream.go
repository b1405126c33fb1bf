package dashboard

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// writeTimeout is how long a reader may take nothing of an event before its stream ends.
	writeTimeout = 10 * time.Second
	// aliveEvery is the most time between two events: a reader that hears nothing for longer has lost the router.
	aliveEvery = time.Second
	// reconnectAfter is what readers are told to wait before they come again.
	reconnectAfter = time.Second
)

// events streams a snapshot and then changes, until the reader goes, takes too long, may not see it any more, or Close.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request) {
	store := r.URL.Query().Get("store")
	if err := d.authorize(r, store); err != nil {
		d.refuse(w, err)
		return
	}
	if n := d.streams.Add(1); n > int64(d.config.MaxStreams) {
		d.streams.Add(-1)
		d.refuse(w, &RefusedError{Status: http.StatusServiceUnavailable, Refusal: Refusal{
			Reason: "OVERLOADED", Message: fmt.Sprintf("%d pages are open already, and no more are allowed", d.config.MaxStreams),
		}})
		return
	}
	defer d.streams.Add(-1)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects would hold events back
	w.WriteHeader(http.StatusOK)
	s := &stream{dashboard: d, out: http.NewResponseController(w), w: w, store: store}
	tick := time.NewTicker(d.config.Interval)
	defer tick.Stop()
	for {
		if err := d.authorize(r, store); err != nil {
			_ = s.send("refused", mustEncode(refusedOf(err).Refusal))
			return
		}
		if s.tell(time.Now()) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-d.closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream is one reader.
type stream struct {
	dashboard *Dashboard
	out       *http.ResponseController
	w         http.ResponseWriter
	store     string // empty for all
	seen      *Page  // what the reader has; nil before the snapshot
	sent      time.Time
}

// tell sends what the reader does not know at now.
func (s *stream) tell(now time.Time) error {
	e := s.dashboard.editions.at(now)
	next := e.show(s.store)
	event, data := "change", []byte(nil)
	switch {
	case s.seen == next.page:
	case s.seen == nil || listsOthers(s.seen, next.page):
		event, data = "snapshot", e.encodeSnapshot(next.page, s.dashboard.config.Router())
	case s.seen == next.before:
		data = next.change()
	default:
		data = e.encodeChange(s.seen, next.page)
	}
	s.seen = next.page
	if data == nil {
		if now.Sub(s.sent) < aliveEvery {
			return nil
		}
		event, data = "alive", mustEncode(changeEvent{NowMs: now.UnixMilli()})
	}
	s.sent = now
	return s.send(event, data)
}

// listsOthers says whether partitions may be listed no more although they are there, which no change tells.
func listsOthers(older, newer *Page) bool {
	return older.Left+newer.Left > 0 && !slices.Equal(older.Stores, newer.Stores)
}

// send writes one event, which holds no line break, within writeTimeout.
func (s *stream) send(event string, data []byte) error {
	var b bytes.Buffer
	if s.sent.IsZero() {
		fmt.Fprintf(&b, "retry: %d\n", reconnectAfter.Milliseconds())
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", event, data)
	_ = s.out.SetWriteDeadline(time.Now().Add(writeTimeout)) // a writer that knows none has no slow reader
	if _, err := s.w.Write(b.Bytes()); err != nil {
		return err
	}
	return s.out.Flush()
}
