package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/mux"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// lookups opens a stream of lookups to the router. It ends with the test.
func (w *world) lookups() *mux.Client {
	c := mux.NewClient(w.conn, "the router")
	ctx, cancel := context.WithCancel(w.t.Context())
	var runs sync.WaitGroup
	runs.Go(func() { c.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		runs.Wait()
	})
	synctest.Wait()
	return c
}

// look is ask over the stream.
func (w *world) look(c *mux.Client, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	request, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
	defer cancel()
	reply, err := c.Do(ctx, mux.Ask{Request: request})
	if err != nil {
		return nil, err
	}
	resp := &iqv1.GetResponse{}
	return resp, proto.Unmarshal(reply, resp)
}

// TestLookupsAnswerAsGetDoes asks both ways for the same, for answers and refusals of each kind.
func TestLookupsAnswerAsGetDoes(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(90, 100))
		defer a.kill()
		defer b.kill()
		c := w.lookups()
		explain := get(modeAny)
		explain.Explain = true
		waits := maxOffsetLag(5)
		waits.Policy.Wait = durationpb.New(300 * time.Millisecond)
		for name, m := range map[string]*iqv1.GetRequest{
			"active": get(modeActive), "any": get(modeAny), "strong": get(modeStrong), "explain": explain, "waits": waits,
			"no store": {}, "unknown": {Store: "x"}, "no such partition": {Store: "s", Partition: new(int32(9))},
			"no such mode": {Store: "s", Policy: &iqv1.ReadPolicy{Mode: 77}}, "other application": {Store: "s", Application: "x"},
		} {
			for _, broken := range []bool{false, true} {
				if broken {
					a.fails(status.Error(codes.Internal, "broken"))
				} else {
					a.answers(func(_ context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
						return &iqv1.GetResponse{Found: true, Value: []byte("from a"), Served: a.status(m)}, nil
					})
				}
				called, callErr, _ := w.ask(m)
				looked, lookErr := w.look(c, m)
				for _, at := range append(called.GetAttempts(), looked.GetAttempts()...) {
					at.Elapsed = nil
				}
				if !proto.Equal(called, looked) || status.Convert(callErr).String() != status.Convert(lookErr).String() {
					t.Errorf("%s, broken %t:\nby a call %v, %v\nby stream %v, %v", name, broken, called, callErr, looked, lookErr)
				}
			}
		}
	})
}

// TestLookupsInFlightAtAKilledNodeAreAnsweredOnceEach kills the node that holds hundreds of lookups, which came over one stream
// and went over one: each is answered by the standby, once, and none is lost.
func TestLookupsInFlightAtAKilledNodeAreAnsweredOnceEach(t *testing.T) {
	for name, old := range map[string]bool{"streams": false, "calls": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(w *world) {
				t := w.t
				a, b := w.start("a", "a:7070", 1, active(100)), w.join("b", standby(99, 100))
				a.old, b.old = old, old
				defer b.kill()
				b.answers(func(_ context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
					return &iqv1.GetResponse{Found: true, Value: m.GetKey()}, nil
				})
				a.hangs()
				c := w.lookups()
				const reads = 500
				var mu sync.Mutex
				answers := map[string]int{}
				var all sync.WaitGroup
				for i := range reads {
					all.Go(func() {
						m := get(modeAny)
						m.Key = fmt.Appendf(nil, "key-%d", i)
						resp, err := w.look(c, m)
						mu.Lock()
						defer mu.Unlock()
						if err != nil || string(resp.GetValue()) != string(m.GetKey()) || len(resp.GetAttempts()) != 1 {
							t.Errorf("%s: %v, %v", m.GetKey(), resp, err)
						}
						answers[string(m.GetKey())]++
					})
				}
				advance(50 * time.Millisecond)
				if a.count() != reads {
					t.Errorf("%d of %d lookups were at the node when it was killed", a.count(), reads)
				}
				start := time.Now()
				a.kill()
				all.Wait()
				if took := time.Since(start); took > 100*time.Millisecond {
					t.Errorf("the last answer came after %s", took)
				}
				if len(answers) != reads || b.count() != reads {
					t.Errorf("%d of %d were answered, and the standby was asked %d times", len(answers), reads, b.count())
				}
			})
		})
	}
}

// TestNodeThatDoesNotKnowLookupsIsAskedByCalls: it is of an older version.
func TestNodeThatDoesNotKnowLookupsIsAskedByCalls(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.start("a", "a:7070", 1, active(100))
		a.old = true
		defer a.kill()
		synctest.Wait()
		c := w.lookups()
		for range 3 {
			if resp, err := w.look(c, get(modeActive)); err != nil || string(resp.GetValue()) != "from a" {
				t.Errorf("got %v, %v", resp, err)
			}
			if resp, err, _ := w.ask(get(modeActive)); err != nil || string(resp.GetValue()) != "from a" {
				t.Errorf("got %v, %v", resp, err)
			}
		}
	})
}

// TestLookupsThatAreGivenUpEndAtTheNode: the router's caller has gone, so nobody may work for it.
func TestLookupsThatAreGivenUpEndAtTheNode(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(100))
		defer a.kill()
		ended := make(chan error, 1)
		a.answers(func(ctx context.Context, _ *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		})
		c := w.lookups()
		request, err := proto.Marshal(get(modeActive))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan error, 1)
		go func() {
			_, err := c.Do(ctx, mux.Ask{Request: request})
			out <- err
		}()
		synctest.Wait()
		start := time.Now()
		cancel()
		if err := <-out; status.Code(err) != codes.Canceled {
			t.Errorf("got %v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
			t.Errorf("the node's read ended with %v after %s", err, time.Since(start))
		}
	})
}

// TestRouterThatStopsAnswersTheLookupsThatItHas: and reads that wait end, as calls do.
func TestRouterThatStopsAnswersTheLookupsThatItHas(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(100))
		defer a.kill()
		a.answers(func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			time.Sleep(time.Second)
			return &iqv1.GetResponse{Found: true, Value: []byte("v")}, nil
		})
		c := w.lookups()
		out := make(chan error, 1)
		go func() {
			resp, err := w.look(c, get(modeActive))
			if err == nil && string(resp.GetValue()) != "v" {
				err = fmt.Errorf("got %v", resp)
			}
			out <- err
		}()
		held := make(chan error, 1)
		go func() {
			m := get(modeActive)
			m.Partition, m.Store = nil, "s"
			m.Policy.AtLeast = &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "in", Offset: 1 << 40}}}
			m.Policy.Mode = modeAny
			m.Policy.Wait = durationpb.New(time.Minute)
			a.change(func(r *iqv1.HeartbeatRequest) { r.Replicas[0].LeaseValid = false })
			time.Sleep(200 * time.Millisecond)
			_, err := w.look(c, m)
			held <- err
		}()
		advance(500 * time.Millisecond)
		w.stop()
		if err := <-held; !errors.Is(iqerr.FromStatus(err), iqerr.ErrClosing) {
			t.Errorf("a read that waits: %v", err)
		}
		if err := <-out; err != nil {
			t.Error(err)
		}
	})
}
