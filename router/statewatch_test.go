package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/query"
)

// change is one entry of a changelog, whose place in it is its position. An empty value removes the key.
type change struct{ key, value string }

// follows answers watches of partition p as a node does that has applied a changelog up to end: what is there then, the
// changes up to its limit, and then nothing more. stop is called before each event; an error ends the stream.
func follows(n *fakeNode, log []change, end int, stop func(event int) error) func(*iqv1.WatchRequest, iqv1.QueryService_WatchServer) error {
	return func(m *iqv1.WatchRequest, stream iqv1.QueryService_WatchServer) error {
		p := m.GetSelection().GetPartitions()[0]
		if len(m.GetSelection().GetPartitions()) != 1 {
			return status.Error(codes.InvalidArgument, "one partition at a time")
		}
		if err := n.refuses(p, m.GetPolicy().GetMode()); err != nil {
			return err
		}
		served := n.replicaOf(p)
		served.Position = int64(end)
		if err := stream.Send(&iqv1.WatchResponse{Reads: []*iqv1.PartitionRead{{Partition: p, Served: served}}}); err != nil {
			return err
		}
		sent := 0
		event := func(key, value string) (*iqv1.WatchEvent, error) {
			if stop != nil {
				if err := stop(sent); err != nil {
					return nil, iqerr.Status(err)
				}
			}
			sent++
			return &iqv1.WatchEvent{Row: &iqv1.Row{Key: []byte(key), Value: []byte(value), Cursor: []byte("c")}, Removed: value == ""}, nil
		}
		from := end
		if len(m.GetFrom()) > 0 {
			from = int(m.GetFrom()[0].GetPosition())
		} else if !m.GetChangesOnly() {
			now := map[string]string{}
			for _, c := range log[:end] {
				if now[c.key] = c.value; c.value == "" {
					delete(now, c.key)
				}
			}
			for _, key := range slices.Sorted(maps.Keys(now)) {
				e, err := event(key, now[key])
				if err != nil {
					return err
				}
				if err := stream.Send(&iqv1.WatchResponse{Events: []*iqv1.WatchEvent{e}}); err != nil {
					return err
				}
			}
		}
		positions := func(at int) []*iqv1.PartitionPosition {
			return []*iqv1.PartitionPosition{{Partition: p, Position: int64(at)}}
		}
		if err := stream.Send(&iqv1.WatchResponse{Current: []int32{p}, Positions: positions(from)}); err != nil {
			return err
		}
		for at := from; at < len(log); at++ {
			e, err := event(log[at].key, log[at].value)
			if err != nil {
				return err
			}
			if err := stream.Send(&iqv1.WatchResponse{Events: []*iqv1.WatchEvent{e}, Positions: positions(at + 1)}); err != nil {
				return err
			}
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	}
}

// watched is what has come of a watch: the events, * where all that was there has come, and who was read.
type watched struct {
	state    map[string]string
	events   []string
	nodes    []string
	position map[int32]int64
	current  []int32
	err      error
}

// watching is a watch under way.
type watching struct {
	sync.Mutex
	watched
}

// now is what has come so far.
func (g *watching) now() *watched {
	synctest.Wait()
	g.Lock()
	defer g.Unlock()
	got := g.watched
	got.state, got.position = maps.Clone(got.state), maps.Clone(got.position)
	return &got
}

// watch reads a watch until nothing more comes.
func (w *world) watch(ctx context.Context, m *iqv1.WatchRequest) *watched {
	w.t.Helper()
	return w.watching(ctx, m).now()
}

func (w *world) watching(ctx context.Context, m *iqv1.WatchRequest) *watching {
	w.t.Helper()
	if m.GetSelection() == nil {
		m.Selection = &iqv1.Selection{}
	}
	m.Selection.Store = "s"
	got := &watching{watched: watched{state: map[string]string{}, position: map[int32]int64{}}}
	stream, err := w.client.Watch(ctx, m)
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		for {
			resp, err := stream.Recv()
			got.Lock()
			if err != nil {
				got.err = err
				got.Unlock()
				return
			}
			for _, read := range resp.GetReads() {
				got.nodes = append(got.nodes, read.GetServed().GetNode())
			}
			for _, e := range resp.GetEvents() {
				key, value := string(e.GetRow().GetKey()), string(e.GetRow().GetValue())
				got.events = append(got.events, key+"="+value)
				if got.state[key] = value; e.GetRemoved() {
					delete(got.state, key)
				}
				if len(e.GetRow().GetCursor()) > 0 {
					got.events = append(got.events, "a cursor")
				}
			}
			for _, p := range resp.GetPositions() {
				got.position[p.GetPartition()] = p.GetPosition()
			}
			got.current = append(got.current, resp.GetCurrent()...)
			if len(resp.GetCurrent()) > 0 {
				got.events = append(got.events, "*")
			}
			got.Unlock()
		}
	}()
	return got
}

// log is k1 to k5, of which k1 is removed and k2 changed later.
var log = []change{{"k1", "a"}, {"k2", "b"}, {"k3", "c"}, {"k4", "d"}, {"k1", ""}, {"k2", "e"}, {"k5", "f"}}

func TestWatchTellsWhatIsThereAndThenItsChanges(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 1)
		a := w.join("a", of(active(9), 0)...)
		a.streams.watch = follows(a, log, 4, nil)
		got := w.watch(w.t.Context(), &iqv1.WatchRequest{})
		if want := "k1=a k2=b k3=c k4=d * k1= k2=e k5=f"; strings.Join(got.events, " ") != want || got.position[0] != 7 {
			t.Errorf("%q, position %d", got.events, got.position[0])
		}
		got = w.watch(w.t.Context(), &iqv1.WatchRequest{ChangesOnly: true})
		if want := "* k1= k2=e k5=f"; strings.Join(got.events, " ") != want || got.position[0] != 7 {
			t.Errorf("changes only: %q, position %d", got.events, got.position[0])
		}
		got = w.watch(w.t.Context(), &iqv1.WatchRequest{From: []*iqv1.PartitionPosition{{Partition: 0, Position: 5}}})
		if want := "* k2=e k5=f"; strings.Join(got.events, " ") != want || got.position[0] != 7 {
			t.Errorf("from 5: %q, position %d", got.events, got.position[0])
		}
		a.kill()
	})
}

func TestWatchOfOneKeyTouchesItsPartitionOnly(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 3)
		a := w.join("a", of(active(9), 0, 1, 2)...)
		var asked []string
		a.streams.watch = func(m *iqv1.WatchRequest, stream iqv1.QueryService_WatchServer) error {
			a.mu.Lock()
			asked = append(asked, fmt.Sprint(m.GetSelection().GetPartitions()))
			a.mu.Unlock()
			return follows(a, log, 4, nil)(m, stream)
		}
		w.watch(w.t.Context(), &iqv1.WatchRequest{Selection: &iqv1.Selection{Keys: &iqv1.Selection_Key{Key: []byte("k2")}}})
		if got := strings.Join(asked, " "); got != "[0]" { // S27: k2 is in partition 0
			t.Errorf("asked for partitions %s", got)
		}
		all := w.watch(w.t.Context(), &iqv1.WatchRequest{})
		if slices.Sort(all.current); !slices.Equal(all.current, []int32{0, 1, 2}) {
			t.Errorf("current %v", all.current)
		}
		a.kill()
	})
}

// TestWatchGoesOnAtAnotherReplicaWhereverItBreaks breaks the first replica's stream before each of its events. The watcher
// ends with the same state, whether the other replica is ahead of the first, behind it, or as far.
func TestWatchGoesOnAtAnotherReplicaWhereverItBreaks(t *testing.T) {
	want := map[string]string{"k2": "e", "k3": "c", "k4": "d", "k5": "f"}
	for _, other := range []int{2, 4, 7} {
		for at := range 7 {
			inBubble(t, Config{}, func(w *world) {
				w.holding(query.KeyValue, 1)
				a, b := w.join("a", of(active(9), 0)...), w.join("b", of(standby(9, 9), 0)...)
				a.streams.watch = follows(a, log, 4, func(event int) error {
					if event == at {
						return &iqerr.ClosingError{Node: "a", Store: "s"}
					}
					return nil
				})
				b.streams.watch = follows(b, log, other, nil)
				got := w.watch(w.t.Context(), &iqv1.WatchRequest{Policy: anyPolicy()})
				if !maps.Equal(got.state, want) || got.position[0] != 7 || len(got.current) != 1 {
					t.Errorf("broken before event %d, the other at %d: %v, position %d, current %v, %v\n%q",
						at, other, got.state, got.position[0], got.current, got.err, got.events)
				}
				if at >= 4 { // all that was there had come: each change is told once
					if text := strings.Join(got.events, " "); text != "k1=a k2=b k3=c k4=d * k1= k2=e k5=f" {
						t.Errorf("broken before event %d: %s", at, text)
					}
				}
				if nodes := strings.Join(got.nodes, " "); !strings.HasPrefix(nodes, "a b") {
					t.Errorf("read at %s", nodes)
				}
				a.kill()
				b.kill()
			})
		}
	}
}

func TestWatchEndsWithAnErrorThatNamesThePartition(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		w.holding(query.KeyValue, 2)
		a, b := w.join("a", of(active(9), 0)...), w.join("b", of(active(9), 1)...)
		a.streams.watch, b.streams.watch = follows(a, log, 4, nil), follows(b, log, 4, nil)
		lost := w.watching(w.t.Context(), &iqv1.WatchRequest{})
		lost.now()
		b.kill()
		advance(watchPatience / 2)
		if err := lost.now().err; err != nil {
			t.Errorf("ended early: %v", err)
		}
		advance(watchPatience)
		got := lost.now()
		if !errors.Is(iqerr.FromStatus(got.err), iqerr.ErrNoReplica) || !strings.Contains(got.err.Error(), "s/1: ") {
			t.Errorf("%v, want NO_REPLICA for s/1", got.err)
		}
		a.behave(func(s *fakeStreams) {
			s.watch = func(*iqv1.WatchRequest, iqv1.QueryService_WatchServer) error {
				return iqerr.Status(&iqerr.PageLostError{Store: "s", Partition: 0, Problem: "position 3 is below the changelog's start 5"})
			}
		})
		got = w.watch(w.t.Context(), &iqv1.WatchRequest{
			Selection: &iqv1.Selection{Partitions: []int32{0}}, From: []*iqv1.PartitionPosition{{Partition: 0, Position: 3}},
		})
		if !errors.Is(iqerr.FromStatus(got.err), iqerr.ErrPageLost) || !strings.Contains(got.err.Error(), "s/0: ") {
			t.Errorf("%v, want PAGE_LOST for s/0", got.err)
		}
		a.behave(func(s *fakeStreams) {
			s.watch = func(*iqv1.WatchRequest, iqv1.QueryService_WatchServer) error { return nil }
		})
		ended := w.watching(w.t.Context(), &iqv1.WatchRequest{Selection: &iqv1.Selection{Partitions: []int32{0}}})
		advance(2 * watchPatience)
		if got = ended.now(); got.err == nil || status.Code(got.err) == codes.OK {
			t.Errorf("a node's watch that ends well ended the caller's with %v", got.err)
		}
		a.kill()
	})
}

// floods sends a change of 100 KiB after the other.
func floods(_ *iqv1.WatchRequest, stream iqv1.QueryService_WatchServer) error {
	for {
		e := &iqv1.WatchEvent{Row: &iqv1.Row{Key: []byte("k"), Value: make([]byte, 100<<10)}}
		if err := stream.Send(&iqv1.WatchResponse{Events: []*iqv1.WatchEvent{e}}); err != nil {
			return err
		}
	}
}

func TestWatchEndsWhenTheRouterStopsAndWhenItsReaderIsSlow(t *testing.T) {
	inBubble(t, Config{ScanIdle: 3 * time.Second}, func(w *world) {
		w.holding(query.KeyValue, 1)
		a := w.join("a", of(active(9), 0)...)
		a.streams.watch = follows(a, log, 4, nil)
		quiet := w.watching(w.t.Context(), &iqv1.WatchRequest{})
		quiet.now()
		a.behave(func(s *fakeStreams) { s.watch = floods })
		slow, err := w.client.Watch(w.t.Context(), &iqv1.WatchRequest{Selection: &iqv1.Selection{Store: "s"}})
		if err != nil {
			t.Fatal(err)
		}
		advance(2 * time.Second)
		if got := w.router.watches.Load(); got != 2 {
			t.Errorf("%d watches before the lease is over", got)
		}
		advance(2 * time.Second)
		if got := w.router.watches.Load(); got != 1 || quiet.now().err != nil {
			t.Errorf("%d watches after it; one that had nothing to read ended with %v", got, quiet.now().err)
		}
		for err == nil {
			_, err = slow.Recv()
		}
		if !errors.Is(iqerr.FromStatus(err), iqerr.ErrSlowReader) {
			t.Errorf("%v, want SLOW_READER", err)
		}
		w.stop()
		if err := quiet.now().err; !errors.Is(iqerr.FromStatus(err), iqerr.ErrClosing) {
			t.Errorf("%v, want CLOSING", err)
		}
		a.kill()
	})
}
