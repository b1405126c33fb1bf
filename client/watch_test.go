package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// ledger is a store of two partitions and the changes of it, which several routers tell alike. Change n of a partition puts
// or removes one of a few keys. A watch sees some changes more each time that it is asked.
type ledger struct {
	mu       sync.Mutex
	rng      *rand.Rand
	changes  [2][]string // "key=value", or "key" for a removal
	breaks   float64     // how likely a stream ends before a message
	requests []*iqv1.WatchRequest
}

func (l *ledger) grow() {
	p := l.rng.IntN(2)
	key := fmt.Sprintf("p%dk%d", p, l.rng.IntN(4))
	if l.rng.IntN(4) > 0 {
		key += fmt.Sprintf("=%d", len(l.changes[p]))
	}
	l.changes[p] = append(l.changes[p], key)
}

func event(p int, change string) *iqv1.WatchEvent {
	key, value, put := cut(change)
	return &iqv1.WatchEvent{Row: &iqv1.Row{Key: []byte(key), Value: []byte(value), Partition: int32(p)}, Removed: !put}
}

func cut(change string) (key, value string, put bool) {
	for i := range change {
		if change[i] == '=' {
			return change[:i], change[i+1:], true
		}
	}
	return change, "", false
}

// state is what a partition holds after its first n changes.
func (l *ledger) state(p, n int) map[string]string {
	s := map[string]string{}
	for _, c := range l.changes[p][:n] {
		if key, value, put := cut(c); put {
			s[key] = value
		} else {
			delete(s, key)
		}
	}
	return s
}

func (l *ledger) watch(req *iqv1.WatchRequest, out iqv1.QueryService_WatchServer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, req)
	send := func(m *iqv1.WatchResponse) error {
		if l.rng.Float64() < l.breaks {
			return status.Error(codes.Unavailable, "broken")
		}
		return out.Send(m)
	}
	at := map[int]int{}
	for _, from := range req.GetFrom() {
		at[int(from.GetPartition())] = int(from.GetPosition())
	}
	for p := range 2 {
		if _, ok := at[p]; ok {
			continue
		}
		n := len(l.changes[p])
		for key, value := range l.state(p, n) { // one message each, without positions
			if err := send(&iqv1.WatchResponse{Events: []*iqv1.WatchEvent{event(p, key+"="+value)}}); err != nil {
				return err
			}
		}
		at[p] = n
		err := send(&iqv1.WatchResponse{Current: []int32{int32(p)}, Positions: []*iqv1.PartitionPosition{{Partition: int32(p), Position: int64(n)}}})
		if err != nil {
			return err
		}
	}
	for range 10 {
		l.grow()
		p := l.rng.IntN(2)
		n := min(len(l.changes[p]), at[p]+l.rng.IntN(3))
		m := &iqv1.WatchResponse{Positions: []*iqv1.PartitionPosition{{Partition: int32(p), Position: int64(n)}}}
		for _, c := range l.changes[p][at[p]:n] {
			m.Events = append(m.Events, event(p, c))
		}
		at[p] = n
		if err := send(m); err != nil {
			return err
		}
	}
	return iqerr.ErrClosing
}

// TestAWatchTellsEveryChangeOnceWhateverBreaks: what its events make of an empty table is, at the end, what the store held at
// its positions; and after a partition is current each of its changes comes, in order, once.
func TestAWatchTellsEveryChangeOnceWhateverBreaks(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			l := &ledger{rng: rand.New(rand.NewPCG(seed, 3))}
			l.breaks = l.rng.Float64() * 0.6
			for range 20 {
				l.grow()
			}
			r := &router{changes: l.watch}
			c := newNetwork(t, map[string]*router{"r1": r, "r2": r}).client(t, "r1 r2")
			w := c.Watch(t.Context(), "orders")
			tables := [2]map[string]string{{}, {}}
			resumed, told, current := 0, [2][]string{}, map[int32]int{}
			for e, err := range w.Events() {
				if err != nil {
					if l.breaks < 0.3 {
						t.Fatalf("seed %d: %v", seed, err)
					}
					return // it could not begin: each router was asked once
				}
				p := e.Row.Partition
				switch e.Kind {
				case client.EventEntry:
					tables[p][string(e.Row.Key)] = string(e.Row.Value)
					told[p] = append(told[p], string(e.Row.Key)+"="+string(e.Row.Value))
				case client.EventRemoved:
					delete(tables[p], string(e.Row.Key))
					told[p] = append(told[p], string(e.Row.Key))
				case client.EventCurrent:
					for _, p := range e.Partitions {
						if _, twice := current[p]; twice {
							t.Fatalf("seed %d: current twice", seed)
						}
						current[p], told[p] = int(w.Positions()[p]), nil
					}
				case client.EventResumed:
					if resumed++; e.Err == nil {
						t.Errorf("seed %d: resumed without a reason", seed)
					}
					for _, p := range e.Partitions {
						tables[p], told[p] = map[string]string{}, nil
					}
				}
				if resumed > 12 {
					break
				}
			}
			positions := w.Positions()
			l.mu.Lock()
			defer l.mu.Unlock()
			for p, from := range current {
				n := int(positions[p])
				want := l.changes[p][from:]
				for i, c := range told[p] {
					if i >= len(want) || want[i] != c {
						t.Fatalf("seed %d: partition %d told %v of %v", seed, p, told[p], want)
					}
				}
				if got := from + len(told[p]); got < n {
					t.Errorf("seed %d: partition %d: %d changes told, position %d", seed, p, got, n)
				}
				if want := l.state(int(p), from+len(told[p])); !maps.Equal(tables[p], want) {
					t.Errorf("seed %d: partition %d is %v, want %v", seed, p, tables[p], want)
				}
			}
		})
	}
}

func TestAWatchThatNobodyLetsBeginOrGoOnEndsWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuses := func(err error) *router {
			return &router{changes: func(*iqv1.WatchRequest, iqv1.QueryService_WatchServer) error { return err }}
		}
		failed := func(w *client.Watcher) (events int, err error) {
			for _, err = range w.Events() {
				if err == nil {
					events++
				}
			}
			return events, err
		}
		began := time.Now()
		c := newNetwork(t, map[string]*router{"r1": refuses(stale()), "r2": nil}).client(t, "r1 r2")
		if _, err := failed(c.Watch(t.Context(), "orders")); !errors.Is(err, iqerr.ErrStale) || time.Since(began) > time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		once := func(then error) *router {
			r := &router{}
			n := 0
			r.changes = func(_ *iqv1.WatchRequest, out iqv1.QueryService_WatchServer) error {
				if n++; n > 1 {
					return then
				}
				return out.Send(&iqv1.WatchResponse{Events: []*iqv1.WatchEvent{{Row: &iqv1.Row{}}}})
			}
			return r
		}
		began = time.Now()
		c = newNetwork(t, map[string]*router{"r1": once(pageLost())}).client(t, "r1")
		if n, err := failed(c.Watch(t.Context(), "orders")); n != 1 || !errors.Is(err, iqerr.ErrPageLost) || time.Since(began) > time.Second {
			t.Errorf("got %d events, %v after %v", n, err, time.Since(began))
		}
		began = time.Now()
		c = newNetwork(t, map[string]*router{"r1": once(stale())}).client(t, "r1")
		_, err := failed(c.Watch(t.Context(), "orders"))
		if took := time.Since(began); !errors.Is(err, iqerr.ErrStale) || took < client.MaxResume || took > client.MaxResume+5*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
	})
}

func TestAWatchGoesOnFromGivenPositions(t *testing.T) {
	var asked *iqv1.WatchRequest
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &router{changes: func(req *iqv1.WatchRequest, out iqv1.QueryService_WatchServer) error {
		asked = req
		if err := out.Send(&iqv1.WatchResponse{Current: []int32{1}}); err != nil {
			return err
		}
		<-out.Context().Done()
		return out.Context().Err()
	}}
	w := newNetwork(t, map[string]*router{"r1": r}).client(t, "r1").Watch(ctx, "orders", client.Positions(map[int32]int64{4: 9, 1: 7}), client.ChangesOnly())
	var last error
	for e, err := range w.Events() {
		if last = err; err == nil && e.Kind == client.EventCurrent {
			cancel()
		}
	}
	if from := asked.GetFrom(); len(from) != 2 || from[0].GetPosition() != 7 || from[1].GetPartition() != 4 || !asked.GetChangesOnly() {
		t.Errorf("sent %v", asked)
	}
	if p := w.Positions(); !errors.Is(last, context.Canceled) || len(p) != 2 || p[4] != 9 {
		t.Errorf("ended with %v at %v", last, p)
	}
}

func TestMetadataIsWatchedAtTheNextRouterWhenOneBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tell := func(node string) *router {
			return &router{watch: func(s iqv1.MetadataService_WatchMetadataServer) error {
				return s.Send(&iqv1.WatchMetadataResponse{Version: 1, Snapshot: true, Gone: []string{node}})
			}}
		}
		c := newNetwork(t, map[string]*router{"r1": nil, "r2": tell("2"), "r3": tell("3")}).client(t, "r1 r2 r3")
		got := ""
		for m, err := range c.WatchMetadata(t.Context(), "orders", time.Second) {
			if err != nil {
				t.Fatal(err)
			}
			if got += m.GetGone()[0]; len(got) == 4 {
				break
			}
		}
		if got != "2323" {
			t.Errorf("told by %s", got)
		}
		c = newNetwork(t, map[string]*router{"r1": {}}).client(t, "r1")
		for _, err := range c.WatchMetadata(t.Context(), "", 0) {
			if status.Code(iqerr.Status(err)) != codes.Unimplemented {
				t.Errorf("got %v", err)
			}
		}
	})
}
