package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// teller is the metadata of a router: a snapshot for each who watches, then the instances again every 100 ms.
type teller struct {
	mu struct {
		sync.Mutex
		instances []*iqv1.Instance
		stores    []*iqv1.StoreInfo
		gone      []string
		silent    bool
		broken    bool
		watched   int
		changed   chan struct{}
	}
}

func newTeller(stores []*iqv1.StoreInfo, instances ...*iqv1.Instance) *teller {
	tl := &teller{}
	tl.mu.stores, tl.mu.instances, tl.mu.changed = stores, instances, make(chan struct{})
	return tl
}

// change is told at once.
func (tl *teller) change(f func()) {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	f()
	close(tl.mu.changed)
	tl.mu.changed = make(chan struct{})
}

func (tl *teller) watched() int {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	return tl.mu.watched
}

func (tl *teller) watch(stream iqv1.MetadataService_WatchMetadataServer) error {
	tl.mu.Lock()
	tl.mu.watched++
	tl.mu.Unlock()
	for version := int64(1); ; version++ {
		tl.mu.Lock()
		m := &iqv1.WatchMetadataResponse{Version: version, Snapshot: version == 1, Gone: tl.mu.gone}
		if m.GetSnapshot() {
			m.Stores = tl.mu.stores
		}
		for _, in := range tl.mu.instances {
			m.Instances = append(m.Instances, proto.CloneOf(in))
		}
		silent, broken, changed := tl.mu.silent, tl.mu.broken, tl.mu.changed
		tl.mu.Unlock()
		if broken {
			return status.Error(codes.Unavailable, "going away")
		}
		if !silent {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func orders(partitions int32, by string) []*iqv1.StoreInfo {
	return []*iqv1.StoreInfo{{Name: "orders", Partitions: partitions, ActualPartitions: partitions, Partitioner: by}}
}

// hosts is a node that reports every 100 ms and holds what is given, of all partitions from 0.
func hosts(id string, replicas ...*iqv1.ReplicaStatus) *iqv1.Instance {
	for i, r := range replicas {
		r.Store, r.Partition = "orders", int32(i)
	}
	return &iqv1.Instance{Node: id, Address: id + ":1", Alive: true, Interval: durationpb.New(100 * time.Millisecond), Replicas: replicas}
}

func activeNow() *iqv1.ReplicaStatus {
	return &iqv1.ReplicaStatus{
		Role: iqv1.Role_ROLE_ACTIVE, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, LeaseValid: true, Position: 100, EndPosition: 100,
		OffsetLag: new(int64(0)), TimeLag: durationpb.New(0),
	}
}

func standbyBehind(offsets int64, age time.Duration) *iqv1.ReplicaStatus {
	return &iqv1.ReplicaStatus{
		Role: iqv1.Role_ROLE_STANDBY, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, Position: 100 - offsets, EndPosition: 100,
		OffsetLag: &offsets, TimeLag: durationpb.New(age),
	}
}

// plain is the usual world: a is active, b a standby 50 ms behind, r1 and r2 tell of both.
type plain struct {
	*testing.T
	net          *network
	tell1, tell2 *teller
	r1, r2, a, b *router
	client       *client.Client
}

// inDirectMode runs f in a bubble with a client that has its view.
func inDirectMode(t *testing.T, f func(*plain)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &plain{T: t, r1: answers(value("routed")), r2: answers(value("routed")), a: answers(value("a")), b: answers(value("b"))}
		told := func() *teller {
			return newTeller(orders(1, ""), hosts("a", activeNow()), hosts("b", standbyBehind(5, 50*time.Millisecond)))
		}
		w.tell1, w.tell2 = told(), told()
		w.r1.watch, w.r2.watch = w.tell1.watch, w.tell2.watch
		w.net = newNetwork(t, map[string]*router{"r1": w.r1, "r2": w.r2, "a:1": w.a, "b:1": w.b})
		w.client = w.net.client(t, "r1 r2", client.WithDirect())
		if err := w.client.WaitForView(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(w)
	})
}

// read reads one key and checks who answered, and how often the routers were asked for it.
func (w *plain) read(want string, detour client.Detour, opts ...client.ReadOption) client.Result {
	w.Helper()
	r, err := w.client.Get(w.Context(), "orders", []byte("k"), opts...)
	if err != nil {
		w.Fatalf("read: %v", err)
	}
	way := client.WayDirect
	if want == "routed" {
		way = client.WayRouted
	}
	if string(r.Value) != want || r.Way != way || r.Detour != detour {
		w.Errorf("got %q %s, detour %s; want %q, detour %s; attempts %v", r.Value, r.Way, r.Detour, want, detour, r.Attempts)
	}
	return r
}

func TestDirectReadAsksTheNodeThatARouterWouldAsk(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.read("a", client.DetourNone, client.Active())
		w.read("a", client.DetourNone, client.Strong(), client.Wait(time.Second), client.ReadUncommitted())
		if m := w.a.last(); m.Partition == nil || m.GetPartition() != 0 || m.GetPolicy().GetMode() != iqv1.ReadPolicy_MODE_STRONG ||
			m.GetPolicy().GetWait() != nil || m.GetPolicy().GetIsolation() != iqv1.ReadPolicy_ISOLATION_READ_UNCOMMITTED || string(m.GetKey()) != "k" {
			w.Errorf("the node was asked %v", m)
		}
		w.read("a", client.DetourNone, client.MaxStaleness(time.Second))
		w.tell1.change(func() { w.tell1.mu.instances[1].Rack = "here" })
		synctest.Wait()
		w.read("b", client.DetourNone, client.Any(), client.Nearest("here"))
		if r := w.read("b", client.DetourNone, client.Any(), client.Nearest("here"), client.Explain()); len(r.Decision.GetCandidates()) != 2 {
			w.Errorf("decision %v", r.Decision)
		}
		if n := w.r1.asked() + w.r2.asked(); n != 0 {
			w.Errorf("%d reads went through a router", n)
		}
	})
}

// TestLagsAgeWhileNothingIsHeard: I5. The standby told 50 ms, and is heard no more.
func TestLagsAgeWhileNothingIsHeard(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.tell1.change(func() { w.tell1.mu.instances = w.tell1.mu.instances[1:]; w.tell1.mu.gone = []string{"a"} })
		synctest.Wait()
		w.tell1.change(func() { w.tell1.mu.instances, w.tell1.mu.gone = nil, nil }) // the stream goes on, without news of b
		synctest.Wait()
		w.read("b", client.DetourNone, client.MaxStaleness(500*time.Millisecond))
		time.Sleep(450 * time.Millisecond)
		w.read("b", client.DetourNone, client.MaxStaleness(500*time.Millisecond))
		time.Sleep(time.Millisecond)
		w.read("routed", client.DetourUndecided, client.MaxStaleness(500*time.Millisecond))
	})
}

func TestWithoutAViewReadsAreRouted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r1 := answers(value("routed"))
		c := newNetwork(t, map[string]*router{"r1": r1}).client(t, "r1", client.WithDirect())
		for range 2 {
			r, err := c.Get(t.Context(), "orders", []byte("k"), client.Any())
			if err != nil || r.Way != client.WayRouted || r.Detour != client.DetourNoView {
				t.Errorf("%v %s %s", err, r.Way, r.Detour)
			}
			time.Sleep(time.Minute)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.WaitForView(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited for a view: %v", err)
		}
	})
}

func TestWhatTheClientCannotDecideIsRouted(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.read("routed", client.DetourNoPolicy)
		w.read("routed", client.DetourNoPolicy, client.PreferActive(), client.Wait(time.Second))
		if p := w.r1.last().GetPolicy(); p.GetWait().AsDuration() != time.Second || p.GetPrefer() != iqv1.ReadPolicy_PREFER_ACTIVE {
			w.Errorf("the router was asked with %v", p)
		}
		w.read("routed", client.DetourUndecided, client.Any(), client.Partition(7))
		r, err := w.client.Get(w.Context(), "unknown", []byte("k"), client.Any())
		if err != nil || r.Detour != client.DetourUndecided {
			w.Errorf("an unknown store: %v, %s", err, r.Detour)
		}
		w.tell1.change(func() {
			w.tell1.mu.instances = []*iqv1.Instance{hosts("a"), hosts("b", standbyBehind(50, time.Minute))}
		})
		synctest.Wait()
		w.read("routed", client.DetourUndecided, client.Active())
		w.read("routed", client.DetourUndecided, client.MaxStaleness(time.Second), client.Wait(5*time.Second))
		if got := w.r1.last().GetPolicy().GetWait().AsDuration(); got != 5*time.Second {
			w.Errorf("the router may wait %s", got)
		}
		if n := w.a.asked() + w.b.asked(); n != 0 {
			w.Errorf("nodes were asked %d times", n)
		}
	})
}

// TestRefusalOfARouterCarriesItsNumbers: on a detour the error is the router's.
func TestRefusalOfARouterCarriesItsNumbers(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		for _, r := range []*router{w.r1, w.r2} {
			r.get = func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) { return nil, stale() }
		}
		w.b.get = func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) { return nil, stale() }
		w.tell1.change(func() { w.tell1.mu.instances = []*iqv1.Instance{hosts("a"), hosts("b", standbyBehind(5, 0))} })
		synctest.Wait()
		_, err := w.client.Get(w.Context(), "orders", []byte("k"), client.MaxOffsetLag(50))
		failed, isCall := errors.AsType[*client.CallError](err)
		if e, ok := errors.AsType[*iqerr.StaleError](err); !ok || *e.MaxOffsetLag != 50 || !isCall || len(failed.Attempts) != 3 || failed.Attempts[0].GetNode() != "b" {
			w.Errorf("got %v", err)
		}
	})
}

func TestNextNodeIsAskedWithinTheSameRead(t *testing.T) {
	for name, bad := range map[string]error{
		"broken":       status.Error(codes.Unavailable, "gone"),
		"not hosted":   &iqerr.NotHostedError{Node: "a", Store: "orders"},
		"stale":        stale(),
		"overloaded":   &iqerr.OverloadedError{Node: "a", InFlight: 9, Limit: 8},
		"closing":      iqerr.ErrClosing,
		"no active":    &iqerr.NoActiveError{Refusals: iqerr.Refusals{Store: "orders"}},
		"a bug":        errors.New("a bug"),
		"not reached":  iqerr.ErrPositionNotReached,
		"damaged":      &iqerr.CorruptError{Node: "a", Store: "orders"},
		"out of reach": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inDirectMode(t, func(w *plain) {
				w.a.get = func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) { return nil, bad }
				if bad == nil {
					w.net.kill("a:1")
				}
				started := time.Now()
				r := w.read("b", client.DetourNone, client.Any())
				if len(r.Attempts) != 1 || r.Attempts[0].GetNode() != "a" || r.Attempts[0].GetAddress() != "a:1" || time.Since(started) != 0 {
					w.Errorf("attempts %v after %s", r.Attempts, time.Since(started))
				}
			})
		})
	}
}

func TestWrongRequestIsRefusedByTheNodeAlone(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.a.get = func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			return nil, iqerr.Invalid("key", "k", "is no key")
		}
		_, err := w.client.Get(w.Context(), "orders", []byte("k"), client.Any())
		if !errors.Is(err, iqerr.ErrInvalid) || w.b.asked()+w.r1.asked()+w.r2.asked() != 0 {
			w.Errorf("got %v", err)
		}
	})
}

func TestWhenNoNodeAnswersARouterDoes(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.net.kill("a:1")
		w.net.kill("b:1")
		if r := w.read("routed", client.DetourUnanswered, client.Any()); len(r.Attempts) != 2 || r.Attempts[0].GetNode() != "a" || r.Attempts[1].GetNode() != "b" {
			w.Errorf("attempts %v", r.Attempts)
		}
	})
}

// TestUnreachableNodeRests: its router hears it, so only this client can know. Not every read waits for it.
func TestUnreachableNodeRests(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.net.kill("a:1")
		for i := range 100 {
			if r := w.read("b", client.DetourNone, client.Any()); i > 0 && len(r.Attempts) != 0 {
				w.Fatalf("read %d: attempts %v", i, r.Attempts)
			}
		}
		w.read("routed", client.DetourUnanswered, client.Active())
		w.net.start("a:1", w.a)
		time.Sleep(900 * time.Millisecond)
		w.read("b", client.DetourNone, client.Any())
		time.Sleep(5 * time.Second)
		w.read("a", client.DetourNone, client.Any())
	})
}

func TestHangingNodesLeaveTimeForTheRouter(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.a.get, w.b.get = hangs().get, hangs().get
		ctx, cancel := context.WithTimeout(w.Context(), 900*time.Millisecond)
		defer cancel()
		started := time.Now()
		r, err := w.client.Get(ctx, "orders", []byte("k"), client.Any())
		if took := time.Since(started); err != nil || string(r.Value) != "routed" || r.Detour != client.DetourUnanswered || took != 600*time.Millisecond {
			w.Errorf("got %q, %v after %s", r.Value, err, took)
		}
	})
}

func TestReadIsTakenBackFromASuspectNode(t *testing.T) {
	for name, change := range map[string]func(w *plain){
		"suspect": func(w *plain) { w.tell1.mu.instances[0].Suspect = true },
		"dead":    func(w *plain) { w.tell1.mu.instances[0] = &iqv1.Instance{Node: "a", Address: "a:1"} },
		"moved":   func(w *plain) { w.tell1.mu.instances[0].Address = "elsewhere:1" },
		"anew":    func(w *plain) { w.tell1.mu.instances[0].Incarnation = 2 },
		"gone": func(w *plain) {
			w.tell1.mu.instances, w.tell1.mu.gone = w.tell1.mu.instances[1:], []string{"a"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inDirectMode(t, func(w *plain) {
				w.a.get = hangs().get
				time.AfterFunc(300*time.Millisecond, func() { w.tell1.change(func() { change(w) }) })
				started := time.Now()
				r := w.read("b", client.DetourNone, client.Any())
				if took := time.Since(started); took != 300*time.Millisecond || len(r.Attempts) != 1 {
					w.Errorf("after %s, attempts %v", took, r.Attempts)
				}
			})
		})
	}
}

func TestCancelOfADirectReadAsksNobodyElse(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		ctx, cancel := context.WithCancel(w.Context())
		w.a.get = func(ctx context.Context, _ *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		_, err := w.client.Get(ctx, "orders", []byte("k"), client.Any())
		if !errors.Is(err, context.Canceled) || w.b.asked()+w.r1.asked()+w.r2.asked() != 0 {
			w.Errorf("got %v", err)
		}
	})
}

// TestSilentRouterIsLeft: its connection lives and nothing comes. Reads are routed from MaxViewSilence on until another tells.
func TestSilentRouterIsLeft(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.tell2.change(func() { w.tell2.mu.silent = true })
		w.tell1.change(func() { w.tell1.mu.silent = true })
		time.Sleep(client.MaxViewSilence)
		w.read("a", client.DetourNone, client.Active())
		time.Sleep(100 * time.Millisecond)
		w.read("routed", client.DetourSilent, client.Active())
		w.tell2.change(func() { w.tell2.mu.silent = false })
		time.Sleep(5 * time.Second)
		w.read("a", client.DetourNone, client.Active())
		if w.tell2.watched() == 0 {
			w.Error("the other router was not followed")
		}
	})
}

func TestRouterThatBreaksIsReplacedAtOnce(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		time.Sleep(10 * time.Second)
		w.net.kill("r1")
		synctest.Wait()
		w.read("a", client.DetourNone, client.Active())
		if w.tell2.watched() != 1 {
			w.Errorf("the other router was followed %d times", w.tell2.watched())
		}
	})
}

func TestFollowingPausesBetweenRoutersThatFail(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		for _, tl := range []*teller{w.tell1, w.tell2} {
			tl.change(func() { tl.mu.broken = true })
		}
		time.Sleep(time.Minute)
		if n := w.tell1.watched() + w.tell2.watched(); n < 20 || n > 60 {
			w.Errorf("%d streams in a minute", n)
		}
		w.read("routed", client.DetourSilent, client.Active())
	})
}

func TestRouterThatTellsNonsenseIsLeft(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.tell1.change(func() { w.tell1.mu.instances = []*iqv1.Instance{hosts("", activeNow())} })
		time.Sleep(300 * time.Millisecond)
		w.read("a", client.DetourNone, client.Active())
		if w.tell2.watched() != 1 {
			w.Errorf("the other router was followed %d times", w.tell2.watched())
		}
	})
}

// twice sends every record to both partitions of two.
type twice struct{ partitioner.Partitioner }

func (twice) Name() string                   { return "twice" }
func (twice) Keys(_ []byte, n int32) []int32 { return []int32{0, n - 1} }

// TestS28KeyOfSeveralPartitions: it is nowhere only when each has said so, and found in any. A client that does not have the
// partitioner reads through a router.
func TestS28KeyOfSeveralPartitions(t *testing.T) {
	known, err := partitioner.NewRegistry(twice{partitioner.Murmur2()})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string][]client.Option{"known": {client.WithPartitioners(known)}, "unknown": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := func(p int32) *router {
					return &router{get: func(_ context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
						return &iqv1.GetResponse{Found: p == m.GetPartition(), Value: []byte("v"), Served: &iqv1.ReplicaStatus{Partition: m.GetPartition()}}, nil
					}}
				}
				tl := newTeller(orders(3, "twice"), hosts("a", activeNow(), activeNow(), activeNow()))
				r1 := answers(value("routed"))
				r1.watch = tl.watch
				second := newNetwork(t, map[string]*router{"r1": r1, "a:1": at(2)}).client(t, "r1", append(o, client.WithDirect())...)
				if err := second.WaitForView(t.Context()); err != nil {
					t.Fatal(err)
				}
				r, err := second.Get(t.Context(), "orders", []byte("k"), client.Active())
				switch {
				case err != nil:
					t.Error(err)
				case o == nil:
					if r.Detour != client.DetourPartitioner {
						t.Errorf("detour %s", r.Detour)
					}
					if r, err := second.Get(t.Context(), "orders", []byte("k"), client.Active(), client.Partition(2)); err != nil || r.Way != client.WayDirect {
						t.Errorf("a partition that is named needs no partitioner: %v %s", err, r.Detour)
					}
				case !r.Found || r.Partition != 2 || r.Way != client.WayDirect:
					t.Errorf("%+v", r)
				}
				if r, err := second.Get(t.Context(), "orders", []byte("k"), client.Active(), client.Partition(0)); err != nil || r.Found {
					t.Errorf("the first partition has it not: %v %t", err, r.Found)
				}
			})
		})
	}
}

// TestS14AnswerIsNoFresherThanTheViewKnows: the node has seen end 100, another of end 1000.
func TestS14AnswerIsNoFresherThanTheViewKnows(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.b.get = func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			return &iqv1.GetResponse{Found: true, Value: []byte("b"), Served: &iqv1.ReplicaStatus{
				Node: "b", Store: "orders", Role: iqv1.Role_ROLE_STANDBY, Position: 95, EndPosition: 100, OffsetLag: new(int64(5)),
			}}, nil
		}
		w.tell1.change(func() {
			w.tell1.mu.instances[0].Replicas[0].EndPosition, w.tell1.mu.instances[1].Rack = 1000, "here"
		})
		synctest.Wait()
		if r := w.read("b", client.DetourNone, client.Any(), client.Nearest("here")); r.OffsetLag != 905 {
			w.Errorf("offset lag %d", r.OffsetLag)
		}
	})
}

func TestConnectionsAreLazyAndCloseWithTheirNode(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.read("a", client.DetourNone, client.Active())
		w.read("a", client.DetourNone, client.Active())
		if a, b := w.net.dialed("a:1"), w.net.dialed("b:1"); a != 1 || b != 0 {
			w.Errorf("a dialed %d times, b %d", a, b)
		}
		w.tell1.change(func() { w.tell1.mu.instances[0].Incarnation = 7 })
		synctest.Wait()
		w.read("a", client.DetourNone, client.Active())
		if a := w.net.dialed("a:1"); a != 2 {
			w.Errorf("a new incarnation was dialed %d times", a-1)
		}
	})
}

func TestClosedClientFollowsNobody(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		other, err := client.New([]string{scheme + "r1"}, client.WithDirect(), client.WithDialOptions(grpc.WithContextDialer(w.net.dial)))
		if err != nil {
			w.Fatal(err)
		}
		if err := other.Close(); err != nil {
			w.Fatal(err)
		}
		if _, err := other.Get(w.Context(), "orders", nil, client.Any()); err == nil {
			w.Error("a closed client answered")
		}
		if w.tell1.watched() != 1 {
			w.Errorf("followed %d times", w.tell1.watched())
		}
	})
	c, err := client.New([]string{"r1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WaitForView(t.Context()); err == nil || !strings.Contains(err.Error(), "WithDirect") {
		t.Errorf("without direct mode: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLeastLoadedCountsTheClientsOwnReads(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		release := make(chan struct{})
		w.a.get = func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			<-release
			return value("a"), nil
		}
		first := make(chan error, 1)
		go func() {
			_, err := w.client.Get(w.Context(), "orders", []byte("k"), client.Any(), client.LeastLoaded())
			first <- err
		}()
		synctest.Wait()
		if r := w.read("b", client.DetourNone, client.Any(), client.LeastLoaded()); len(r.Attempts) != 0 {
			w.Errorf("the node that has a read in hand was asked first: %v", r.Attempts)
		}
		close(release)
		if err := <-first; err != nil {
			w.Error(err)
		}
	})
}

// TestReadThatCanWaitIsNotSentToASuspectNode: a router holds it until the node or another reports.
func TestReadThatCanWaitIsNotSentToASuspectNode(t *testing.T) {
	inDirectMode(t, func(w *plain) {
		w.tell1.change(func() {
			for _, in := range w.tell1.mu.instances {
				in.Suspect = true
			}
		})
		synctest.Wait()
		w.read("a", client.DetourNone, client.Any())
		w.read("routed", client.DetourUndecided, client.Any(), client.Wait(time.Second))
	})
}
