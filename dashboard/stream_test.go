package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iqgate/iqgate/metadata"
)

// source is a view that a test changes.
type source struct {
	mu   sync.Mutex
	view *metadata.View
}

func (s *source) set(v *metadata.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view = v
}

func (s *source) get() *metadata.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

const oneNode = "store s parts=1\na\n  s/0 active running pos=9 end=9 time=0s lease\n"

// alive is oneNode in a state, heard a moment ago by the test's own clock.
func alive(t *testing.T, state string) *metadata.View {
	t.Helper()
	return heardNow(t, strings.Replace(oneNode, "running", state, 1))
}

// heardNow is readView for nodes that were heard a moment ago.
func heardNow(t *testing.T, text string) *metadata.View {
	t.Helper()
	now := time.Now().Add(-time.Millisecond)
	v := metadata.NewView(metadata.Limits{})
	for _, in := range readView(t, text).Instances(epoch) {
		r := metadata.Report{
			Node: in.ID, Incarnation: 1, Sequence: 1, Application: in.Application, Address: in.Address, Full: true, Generation: in.Generation,
			Stores: readView(t, text).Stores(),
		}
		for _, rep := range in.Replicas {
			r.Replicas = append(r.Replicas, rep.Replica)
		}
		var err error
		if v, err = v.Apply(r, now); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// recorder takes a stream as a client would, until it is closed.
type recorder struct {
	mu      sync.Mutex
	header  http.Header
	status  int
	written bytes.Buffer
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *recorder) WriteHeader(status int) { r.status = status }
func (r *recorder) Flush()                 {}
func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written.Write(b)
}

type event struct {
	name string
	data map[string]any
}

// events are those that came so far.
func (r *recorder) events(t *testing.T) []event {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []event
	for block := range strings.SplitSeq(strings.TrimSuffix(r.written.String(), "\n\n"), "\n\n") {
		var e event
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch name {
			case "event":
				e.name = value
			case "data":
				if err := json.Unmarshal([]byte(value), &e.data); err != nil {
					t.Fatalf("%q: %v", value, err)
				}
			}
		}
		if e.name != "" {
			list = append(list, e)
		}
	}
	return list
}

func newDashboard(t *testing.T, c Config) *Dashboard {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// open opens a stream; its recorder fills until the test's end or stop.
func open(t *testing.T, d *Dashboard, query string) (r *recorder, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r = &recorder{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.ServeHTTP(r, httptest.NewRequestWithContext(ctx, http.MethodGet, "/dashboard/events"+query, nil))
	}()
	return r, func() { cancel(); <-ended }
}

// TestAStreamIsASnapshotAndThenChanges, at most one each Interval, and a sign of life each second when there is none.
func TestAStreamIsASnapshotAndThenChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s source
		s.set(alive(t, "running"))
		d := newDashboard(t, Config{View: s.get, Router: func() Router { return Router{Name: "r1", Version: "v1"} }})
		r, stop := open(t, d, "")
		defer stop()
		synctest.Wait()
		got := r.events(t)
		if len(got) != 1 || got[0].name != "snapshot" || got[0].data["router"] != "r1" {
			t.Fatalf("at first: %+v", got)
		}
		page := got[0].data["page"].(map[string]any)
		if cells := page["partitions"].([]any); len(cells) != 1 || page["application"] != "app" {
			t.Errorf("the snapshot: %v", page)
		}
		if r.header.Get("Content-Type") != "text/event-stream" || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("header %v", r.header)
		}
		for i := range 20 { // within a second
			s.set(heardNow(t, fmt.Sprintf("store s parts=1\na\n  s/0 standby running pos=9 end=%d time=0s\n", 10+i)))
			time.Sleep(40 * time.Millisecond)
		}
		got = r.events(t)
		if n := len(got) - 1; n < 2 || n > 4 {
			t.Errorf("%d changes in 800ms", n)
		}
		for _, e := range got[1:] {
			if e.name != "change" || len(e.data["partitions"].([]any)) != 1 {
				t.Errorf("%+v", e)
			}
		}
		s.set(alive(t, "running"))
		time.Sleep(time.Second)
		told := len(r.events(t))
		for range 30 { // it is heard again and again, and nothing is new
			s.set(alive(t, "running"))
			time.Sleep(100 * time.Millisecond)
		}
		quiet := r.events(t)[told:]
		if len(quiet) < 3 || len(quiet) > 4 || quiet[len(quiet)-1].name != "alive" || quiet[len(quiet)-1].data["now_ms"] == nil {
			t.Errorf("in three seconds without a change: %+v", quiet)
		}
	})
}

// TestASilentNodeAgesInTheStream, though the view itself stays the same.
func TestASilentNodeAgesInTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s source
		s.set(alive(t, "running"))
		d := newDashboard(t, Config{View: s.get})
		r, stop := open(t, d, "")
		defer stop()
		time.Sleep(5 * time.Second)
		var heard []float64
		for _, e := range r.events(t)[1:] {
			for _, n := range e.data["nodes"].([]any) {
				heard = append(heard, n.(map[string]any)["heard_ms"].(float64))
			}
		}
		if len(heard) < 8 || heard[0] != 1000 || heard[len(heard)-1] < 4500 {
			t.Errorf("ages %v", heard)
		}
	})
}

// TestStreamsAreBounded: one more than MaxStreams is refused at once, and a place is free again when one ends.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDashboard(t, Config{View: func() *metadata.View { return metadata.NewView(metadata.Limits{}) }, MaxStreams: 2})
		_, stop1 := open(t, d, "")
		_, stop2 := open(t, d, "")
		synctest.Wait()
		third, stop3 := open(t, d, "")
		stop3()
		if third.status != http.StatusServiceUnavailable || !strings.Contains(third.written.String(), "OVERLOADED") || third.header.Get("Retry-After") == "" {
			t.Errorf("the third: %d %s", third.status, &third.written)
		}
		stop1()
		fourth, stop4 := open(t, d, "")
		synctest.Wait()
		if fourth.status != http.StatusOK {
			t.Errorf("after one has ended: %d", fourth.status)
		}
		stop2()
		stop4()
	})
}

// TestCloseEndsStreams, so that a server with open pages stops in order.
func TestCloseEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDashboard(t, Config{View: func() *metadata.View { return metadata.NewView(metadata.Limits{}) }})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.ServeHTTP(&recorder{}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/dashboard/events", nil))
		}()
		synctest.Wait()
		d.Close()
		d.Close()
		<-ended
	})
}

// TestAStreamEndsWhenItsReaderMaySeeItNoMore: it is judged before each event.
func TestAStreamEndsWhenItsReaderMaySeeItNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s source
		s.set(alive(t, "running"))
		var mu sync.Mutex
		asked, allowed := "", true
		d := newDashboard(t, Config{View: s.get, Authorize: func(_ *http.Request, store string) error {
			mu.Lock()
			defer mu.Unlock()
			asked = store
			if allowed {
				return nil
			}
			return &RefusedError{Status: http.StatusForbidden, Refusal: Refusal{Reason: "PERMISSION_DENIED", Message: "no metadata for you"}}
		}})
		r, stop := open(t, d, "?store=s")
		defer stop()
		time.Sleep(time.Second)
		mu.Lock()
		allowed = false
		if asked != "s" {
			t.Errorf("asked about %q", asked)
		}
		mu.Unlock()
		s.set(alive(t, "suspended"))
		time.Sleep(time.Second)
		got := r.events(t)
		last := got[len(got)-1]
		if last.name != "refused" || last.data["message"] != "no metadata for you" {
			t.Errorf("the last event: %+v", last)
		}
		for _, e := range got {
			if e.name == "change" && e.data["partitions"] != nil {
				t.Errorf("told after all: %+v", e)
			}
		}
		again, stopAgain := open(t, d, "?store=s")
		stopAgain()
		if again.status != http.StatusForbidden || strings.Contains(again.written.String(), "snapshot") {
			t.Errorf("another one: %d %s", again.status, &again.written)
		}
	})
}

// TestASlowReaderIsCutOffAndHoldsNothing: what it has not taken is no queue.
func TestASlowReaderIsCutOffAndHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s source
		s.set(alive(t, "running"))
		d := newDashboard(t, Config{View: s.get})
		server := &http.Server{Handler: d, ReadHeaderTimeout: time.Second}
		l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		near, far := net.Pipe() // without a buffer: each byte waits for its reader
		l.conns <- far
		if _, err := near.Write([]byte("GET /dashboard/events HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(near)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := resp.Body.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for d.streams.Load() > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > writeTimeout+time.Second {
			t.Errorf("held for %s", took)
		}
		_ = near.Close()
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// pipeListener hands connections over.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// readLog is a log that tells what a test says.
type readLog struct{ recent []Read }

func (l *readLog) Counts() Counts { return Counts{Active: 5} }
func (l *readLog) Recent() []Read { return l.recent }

// TestWhoMaySeeOneStoreIsNotToldOfReadsOfOthers.
func TestWhoMaySeeOneStoreIsNotToldOfReadsOfOthers(t *testing.T) {
	const text = "store s parts=1\nstore t parts=1\na\n  s/0 standby restoring pos=1 end=9\n  t/0 standby restoring pos=1 end=9\n"
	e := &editions{config: &Config{
		View: func() *metadata.View { return readView(t, text) }, Interval: time.Second,
		Reads: &readLog{[]Read{{Sequence: 1, Store: "s"}, {Sequence: 2, Store: "t"}}},
	}}
	all, one := e.at(epoch).show("").page, e.at(epoch).show("t").page
	if len(all.Recent) != 2 || len(all.Restores) != 2 || !all.Reads.Known {
		t.Errorf("of all: %s", mustEncode(all))
	}
	if len(one.Recent) != 1 || one.Recent[0].Store != "t" || len(one.Restores) != 1 || one.Restores[0].Store != "t" || one.Reads.Known {
		t.Errorf("of one: %s", mustEncode(one))
	}
}
