package router

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// relief is what the router has told the node last.
func (n *fakeNode) relief() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.replies) > 0 && n.replies[len(n.replies)-1].GetRelieved()
}

// TestDrainingNodeIsToldAtOnceWhenItIsRelieved, and when it is so no longer: without waiting for a report of its own.
func TestDrainingNodeIsToldAtOnceWhenItIsRelieved(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.start("a", "a:7070", 1, active(10))
		defer a.kill()
		a.change(func(m *iqv1.HeartbeatRequest) { m.Draining = true })
		advance(2 * heartbeatEvery)
		if a.relief() {
			t.Error("nobody else has the partition")
		}
		advance(50 * time.Millisecond) // in the middle between two of a's reports
		taken := active(10)
		taken.Generation = 2
		b := w.start("b", "b:7070", 1, taken)
		synctest.Wait() // no time passes
		if !a.relief() || b.relief() {
			t.Errorf("b serves: a relieved %t, b %t", a.relief(), b.relief())
		}
		advance(time.Second)
		if !a.relief() {
			t.Error("it stays so")
		}
		advance(10 * time.Millisecond)
		b.kill()
		if a.relief() {
			t.Error("b is gone")
		}
	})
}

// TestDrainingNodeIsStillAsked: it serves until it leaves.
func TestDrainingNodeIsStillAsked(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.start("a", "a:7070", 1, active(10))
		defer a.kill()
		a.change(func(m *iqv1.HeartbeatRequest) { m.Draining = true })
		advance(2 * heartbeatEvery)
		for _, mode := range []iqv1.ReadPolicy_Mode{modeAny, modeActive, modeStrong} {
			if resp, err, _ := w.ask(get(mode)); err != nil || string(resp.GetValue()) != "from a" {
				t.Errorf("%s: %v, %v", mode, resp, err)
			}
		}
	})
}

// drainTold drains a node and gives all that is told of it.
func (w *world) drainTold(node string) ([]*iqv1.DrainResponse, error) {
	stream, err := iqv1.NewControlServiceClient(w.conn).Drain(w.t.Context(), &iqv1.DrainRequest{Node: node})
	if err != nil {
		return nil, err
	}
	var all []*iqv1.DrainResponse
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
}

func TestDrainIsForwardedToTheNode(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(10)), w.join("b", standby(10, 10))
		defer a.kill()
		asked := ""
		b.drain = func(m *iqv1.DrainRequest, stream iqv1.ControlService_DrainServer) error {
			asked = m.GetNode()
			for i := range int32(3) {
				if err := stream.Send(&iqv1.DrainResponse{ActiveTasks: 2 - i, Done: i == 2}); err != nil {
					return err
				}
				time.Sleep(time.Second)
			}
			return nil
		}
		all, err := w.drainTold("b")
		if err != nil || len(all) != 3 || all[0].GetActiveTasks() != 2 || all[0].GetDone() || !all[2].GetDone() || asked != "b" {
			t.Errorf("got %v, %v; b was asked for %q", all, err, asked)
		}
		b.drain = func(*iqv1.DrainRequest, iqv1.ControlService_DrainServer) error {
			return iqerr.Status(&iqerr.ClosingError{Node: "b"})
		}
		if _, err := w.drainTold("b"); !errors.Is(iqerr.FromStatus(err), iqerr.ErrClosing) {
			t.Errorf("the node's own refusal: %v", err)
		}
		b.drain = func(_ *iqv1.DrainRequest, stream iqv1.ControlService_DrainServer) error {
			b.change(func(m *iqv1.HeartbeatRequest) { m.Leaving = true })
			<-stream.Context().Done() // the goodbye overtakes the last word
			return stream.Context().Err()
		}
		all, err = w.drainTold("b")
		if err != nil || len(all) != 1 || !all[0].GetDone() {
			t.Errorf("after the goodbye: %v, %v", all, err)
		}
		b.kill()
	})
}

func TestDrainOfNoSuchNodeSaysWhy(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		if _, err := w.drainTold("x"); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "none") {
			t.Errorf("no nodes: %v", err)
		}
		a, b := w.join("a", active(10)), w.join("b", standby(10, 10))
		defer a.kill()
		b.kill()
		advance(3 * time.Second)
		for _, c := range []struct {
			node  string
			code  codes.Code
			words []string
		}{
			{"", codes.InvalidArgument, []string{"node"}},
			{"x", codes.NotFound, []string{`"x"`, "a, b"}},
			{"b", codes.Unavailable, []string{`"b"`, "3s"}},
		} {
			_, err := w.drainTold(c.node)
			if status.Code(err) != c.code {
				t.Errorf("%q: %v", c.node, err)
			}
			for _, word := range c.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q: %v does not say %q", c.node, err, word)
				}
			}
		}
	})
}

// TestDrainUnderWayEndsWhenTheRouterStops, as CLOSING, so that its caller asks another router how it goes.
func TestDrainUnderWayEndsWhenTheRouterStops(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(10))
		ended := make(chan struct{})
		a.drain = func(_ *iqv1.DrainRequest, stream iqv1.ControlService_DrainServer) error {
			defer close(ended)
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		told := make(chan error, 1)
		go func() {
			_, err := w.drainTold("a")
			told <- err
		}()
		synctest.Wait()
		start := time.Now()
		w.stop()
		if err := <-told; !errors.Is(iqerr.FromStatus(err), iqerr.ErrClosing) || time.Since(start) > 0 {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
		<-ended // the node hears that nobody listens
		w.ended <- <-w.ended
		a.kill()
	})
}

// TestDrainUnderWayEndsWithItsCaller.
func TestDrainUnderWayEndsWithItsCaller(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		a := w.join("a", active(10))
		defer a.kill()
		ended := make(chan struct{})
		a.drain = func(_ *iqv1.DrainRequest, stream iqv1.ControlService_DrainServer) error {
			defer close(ended)
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		if _, err := iqv1.NewControlServiceClient(w.conn).Drain(ctx, &iqv1.DrainRequest{Node: "a"}); err != nil {
			w.t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		<-ended
	})
}
