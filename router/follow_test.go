package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// told is one message of a stream of metadata and when it came.
type told struct {
	*iqv1.WatchMetadataResponse
	at time.Duration // since the stream began
}

// reader reads a stream of metadata and keeps the table that its messages make.
type reader struct {
	w      *world
	cancel context.CancelFunc
	done   sync.WaitGroup
	hold   chan struct{} // closed when it may read

	mu        sync.Mutex
	messages  []told
	instances map[string]*iqv1.Instance
	stores    []*iqv1.StoreInfo
	err       error
}

func (w *world) follow(m *iqv1.WatchMetadataRequest) *reader {
	r := w.followLater(m)
	close(r.hold)
	synctest.Wait()
	return r
}

// followLater opens the stream and reads nothing until hold is closed.
func (w *world) followLater(m *iqv1.WatchMetadataRequest) *reader {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	r := &reader{w: w, cancel: cancel, hold: make(chan struct{}), instances: map[string]*iqv1.Instance{}}
	stream, err := w.meta.WatchMetadata(ctx, m)
	if err != nil {
		w.t.Fatal(err)
	}
	start := time.Now()
	r.done.Go(func() {
		<-r.hold
		for {
			m, err := stream.Recv()
			r.mu.Lock()
			if err != nil {
				r.err = iqerr.FromStatus(err)
				r.mu.Unlock()
				return
			}
			r.apply(told{m, time.Since(start)})
			r.mu.Unlock()
		}
	})
	synctest.Wait()
	return r
}

func (r *reader) apply(m told) {
	r.messages = append(r.messages, m)
	if m.GetSnapshot() {
		clear(r.instances)
		r.stores = nil
	}
	for _, id := range m.GetGone() {
		delete(r.instances, id)
	}
	for _, in := range m.GetInstances() {
		r.instances[in.GetNode()] = in
	}
	if len(m.GetStores()) > 0 {
		r.stores = m.GetStores()
	}
}

func (r *reader) stop() {
	r.cancel()
	r.done.Wait()
	synctest.Wait()
}

// since gives the messages from the i-th on.
func (r *reader) since(i int) []told {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages[i:])
}

// table gives copies of the instances and stores as the messages so far make them.
func (r *reader) table() (map[string]*iqv1.Instance, []*iqv1.StoreInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.instances), slices.Clone(r.stores)
}

func (r *reader) hosts() int {
	instances, _ := r.table()
	return len(instances)
}

func (r *reader) count() int { return len(r.since(0)) }

func (r *reader) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// agrees says whether the table is what the router tells now, times apart: they pass.
func (r *reader) agrees() error {
	resp, err := r.w.meta.ListInstances(r.w.t.Context(), &iqv1.ListInstancesRequest{})
	if err != nil {
		return err
	}
	stores, err := r.w.meta.ListStores(r.w.t.Context(), &iqv1.ListStoresRequest{})
	if err != nil {
		return err
	}
	timeless := func(list []*iqv1.Instance) *iqv1.ListInstancesResponse {
		m := proto.CloneOf(&iqv1.ListInstancesResponse{Instances: list})
		for _, in := range m.GetInstances() {
			in.LastHeard = nil
			for _, s := range in.GetReplicas() {
				s.SampleAge, s.TimeLag = nil, nil
			}
		}
		return m
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	byNode := func(a, b *iqv1.Instance) int { return strings.Compare(a.GetNode(), b.GetNode()) }
	got, want := timeless(slices.SortedFunc(maps.Values(r.instances), byNode)), timeless(resp.GetInstances())
	if !proto.Equal(got, want) {
		return fmt.Errorf("the table has %v, the router %v", got, want)
	}
	if got := (&iqv1.ListStoresResponse{Stores: r.stores}); !proto.Equal(got, stores) {
		return fmt.Errorf("the table has %v, the router %v", got, stores)
	}
	return nil
}

// TestWatchTellsRolesAtOnceAndLagsAtTheirInterval: a node that reports every 100ms and a stream that is told of lags every
// 250ms.
func TestWatchTellsRolesAtOnceAndLagsAtTheirInterval(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(10))
		defer a.kill()
		advance(50 * time.Millisecond)
		r := w.follow(&iqv1.WatchMetadataRequest{LagInterval: durationpb.New(250 * time.Millisecond)})
		defer r.stop()
		first := r.since(0)
		if len(first) != 1 || !first[0].GetSnapshot() || first[0].GetVersion() != 1 || first[0].at != 0 ||
			len(first[0].GetInstances()) != 1 || len(first[0].GetStores()) != 1 {
			t.Fatalf("first: %v", first)
		}
		advance(2 * time.Second)
		lags := r.since(1)
		if len(lags) < 6 || len(lags) > 8 {
			t.Errorf("%d messages of lags in 2s, of which 6 to 8 fit", len(lags))
		}
		for i, m := range lags {
			if m.GetSnapshot() || len(m.GetStores()) > 0 || m.GetVersion() != int64(i+2) || (i > 0 && m.at-lags[i-1].at < 250*time.Millisecond) {
				t.Errorf("message %d at %s: %v", i, m.at, m)
			}
		}
		n := r.count()
		a.change(func(m *iqv1.HeartbeatRequest) { m.Replicas[0].State = iqv1.ReplicaState_REPLICA_STATE_SUSPENDED })
		advance(heartbeatEvery)
		if m := r.since(n); len(m) == 0 || m[len(m)-1].GetInstances()[0].GetReplicas()[0].GetState() != iqv1.ReplicaState_REPLICA_STATE_SUSPENDED {
			t.Errorf("the state was not told at once: %v", m)
		}
		b := w.start("b", "b:7070", 1, standby(5, 10))
		defer b.kill()
		n = r.count()
		synctest.Wait() // no time passes
		if m := r.since(0); m[len(m)-1].GetInstances()[len(m[len(m)-1].GetInstances())-1].GetNode() != "b" {
			t.Errorf("the new node was not told at once: %v", r.since(n))
		}
		b.change(func(m *iqv1.HeartbeatRequest) { m.Leaving = true })
		advance(heartbeatEvery)
		if m := r.since(0); !slices.Equal(m[len(m)-1].GetGone(), []string{"b"}) {
			t.Errorf("the goodbye was not told at once: %v", m[len(m)-1])
		}
		if err := r.agrees(); err != nil {
			t.Error(err)
		}
	})
}

// TestWatchBeginsWithNothingAndEndsWithIt: a router that knows no node tells so, and a store that is forgotten is told by a
// snapshot, because no stores would mean no change.
func TestWatchBeginsWithNothingAndEndsWithIt(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		r := w.follow(&iqv1.WatchMetadataRequest{})
		defer r.stop()
		if m := r.since(0); len(m) != 1 || !m[0].GetSnapshot() || len(m[0].GetInstances())+len(m[0].GetStores()) > 0 {
			t.Fatalf("first: %v", m)
		}
		a := w.join("a", active(10))
		if err := r.agrees(); err != nil || r.hosts() != 1 {
			t.Errorf("with a: %v", err)
		}
		a.kill()
		advance(3 * time.Second)
		if instances, _ := r.table(); r.agrees() != nil || instances["a"].GetAlive() {
			t.Errorf("a is dead: %v, %v", r.agrees(), instances)
		}
		advance(11 * time.Minute)
		instances, stores := r.table()
		if m := r.since(0); !m[len(m)-1].GetSnapshot() || len(instances)+len(stores) > 0 {
			t.Errorf("a is forgotten: %v", m[len(m)-1])
		}
	})
}

// TestWatchOfAStoreTellsOfItsHostsAlone, and ends when nobody knows the store any more.
func TestWatchOfAStoreTellsOfItsHostsAlone(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		both := active(10)
		other := active(7)
		other.Store = "t"
		a, b := w.start("a", "a:7070", 1, both, other), w.start("b", "b:7070", 1, standby(9, 10))
		defer b.kill()
		a.change(func(m *iqv1.HeartbeatRequest) {
			m.Stores = append(m.Stores, &iqv1.StoreInfo{Name: "t", Partitions: 1, ActualPartitions: 1, SourceTopics: []string{"in"}})
		})
		advance(2 * heartbeatEvery)
		r := w.follow(&iqv1.WatchMetadataRequest{Store: "t"})
		defer r.stop()
		instances, stores := r.table()
		if len(instances) != 1 || len(instances["a"].GetReplicas()) != 1 || len(stores) != 1 || stores[0].GetName() != "t" {
			t.Fatalf("t: %v, %v", instances, stores)
		}
		b.change(func(m *iqv1.HeartbeatRequest) {
			o := proto.CloneOf(other)
			o.Role, o.LeaseValid = iqv1.Role_ROLE_STANDBY, false
			m.Replicas = append(m.Replicas, o)
		})
		advance(heartbeatEvery)
		if n := r.hosts(); n != 2 {
			t.Errorf("b hosts t: %d hosts", n)
		}
		b.change(func(m *iqv1.HeartbeatRequest) { m.Replicas = m.Replicas[:1] })
		advance(heartbeatEvery)
		if n := r.hosts(); n != 1 {
			t.Errorf("b hosts t no more: %d hosts", n)
		}
		a.kill()
		advance(11 * time.Minute)
		if err := r.failure(); !errors.Is(err, iqerr.ErrStoreUnknown) {
			t.Errorf("t is forgotten: %v", err)
		}
	})
}

// TestWatchNamesTheWrongLagInterval, and takes the least one.
func TestWatchNamesTheWrongLagInterval(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		for _, d := range []*durationpb.Duration{
			durationpb.New(0),
			durationpb.New(-time.Second),
			durationpb.New(10*time.Millisecond - 1),
			{Seconds: 1, Nanos: -1},
			durationpb.New(2 * 365 * 24 * time.Hour),
		} {
			r := w.follow(&iqv1.WatchMetadataRequest{LagInterval: d})
			if e, ok := errors.AsType[*iqerr.InvalidError](r.failure()); !ok || e.Field != "lag_interval" || e.Value == "" {
				t.Errorf("%v: %v", d, r.failure())
			}
			r.stop()
		}
		r := w.follow(&iqv1.WatchMetadataRequest{LagInterval: durationpb.New(10 * time.Millisecond)})
		if r.count() != 1 || r.failure() != nil {
			t.Errorf("10ms: %v", r.failure())
		}
		r.stop()
	})
}

// TestSlowReaderOfTheWatchGetsTheNewestState: what it did not read is one difference and no queue. Ten minutes of reports of
// 20 KiB each do not fit into what is under way.
func TestSlowReaderOfTheWatchGetsTheNewestState(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		const partitions = 200
		var all []*iqv1.ReplicaStatus
		for p := range int32(partitions) {
			s := active(1)
			s.Partition = p
			all = append(all, s)
		}
		a := w.start("a", "a:7070", 1, all...)
		defer a.kill()
		a.change(func(m *iqv1.HeartbeatRequest) {
			m.Stores[0].Partitions, m.Stores[0].ActualPartitions = partitions, partitions
		})
		advance(2 * heartbeatEvery)
		r := w.followLater(&iqv1.WatchMetadataRequest{})
		defer r.stop()
		for range 100 {
			a.change(func(m *iqv1.HeartbeatRequest) {
				for _, s := range m.GetReplicas() {
					s.Position, s.EndPosition = s.GetPosition()+1, s.GetEndPosition()+1
					s.LeaseValid = !s.GetLeaseValid() // told at once, were it not for the reader
				}
			})
			advance(heartbeatEvery)
		}
		if n := w.router.watchers.Load(); n != 1 {
			t.Errorf("%d watchers are counted", n)
		}
		close(r.hold)
		synctest.Wait()
		if n := r.count(); n > 20 {
			t.Errorf("%d messages waited for the reader", n)
		}
		instances, _ := r.table()
		if got := instances["a"].GetReplicas()[0].GetPosition(); got != 101 {
			t.Errorf("position %d, want 101", got)
		}
		if err := r.agrees(); err != nil {
			t.Error(err)
		}
	})
}

// TestWatchersAreBounded, and a place is free again when one ends.
func TestWatchersAreBounded(t *testing.T) {
	inBubble(t, Config{MaxWatchers: 2}, func(w *world) {
		t := w.t
		one, two, three := w.follow(&iqv1.WatchMetadataRequest{}), w.follow(&iqv1.WatchMetadataRequest{}), w.follow(&iqv1.WatchMetadataRequest{})
		if e, ok := errors.AsType[*iqerr.OverloadedError](three.failure()); !ok || e.Limit != 2 || e.InFlight != 2 {
			t.Errorf("the third: %v", three.failure())
		}
		one.stop()
		four := w.follow(&iqv1.WatchMetadataRequest{})
		if four.failure() != nil || four.count() != 1 {
			t.Errorf("after one has ended: %v", four.failure())
		}
		two.stop()
		three.stop()
		four.stop()
		if n := w.router.watchers.Load(); n != 0 {
			t.Errorf("%d are still counted", n)
		}
	})
}

// TestWatchEndsAtOnceWhenTheRouterStops, so that its caller follows another.
func TestWatchEndsAtOnceWhenTheRouterStops(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(10))
		r := w.follow(&iqv1.WatchMetadataRequest{})
		w.stop()
		synctest.Wait() // no time passes
		if err := r.failure(); !errors.Is(err, iqerr.ErrClosing) {
			t.Errorf("got %v", err)
		}
		w.ended <- <-w.ended // for inBubble to look at
		r.stop()
		a.kill()
	})
}

// TestWatchMakesTheTableThatTheRouterTells through changes of roles, silences, restarts and goodbyes of four nodes.
func TestWatchMakesTheTableThatTheRouterTells(t *testing.T) {
	for seed := range uint64(2) {
		inBubble(t, Config{}, func(w *world) {
			t := w.t
			rng := rand.New(rand.NewPCG(seed, 8))
			fast, slow := w.follow(&iqv1.WatchMetadataRequest{LagInterval: durationpb.New(10 * time.Millisecond)}),
				w.follow(&iqv1.WatchMetadataRequest{LagInterval: durationpb.New(700 * time.Millisecond)})
			nodes := make([]*fakeNode, 4)
			for step := range 100 {
				i := rng.IntN(len(nodes))
				switch n := nodes[i]; {
				case n == nil:
					nodes[i] = w.start(fmt.Sprintf("n%d", i), fmt.Sprintf("n%d:7070", i), int64(step+1), standby(5, 10))
				case rng.IntN(10) == 0:
					n.kill()
					nodes[i] = nil
				case rng.IntN(10) == 0:
					n.change(func(m *iqv1.HeartbeatRequest) { m.Leaving = true })
					advance(heartbeatEvery)
					n.kill()
					nodes[i] = nil
				case rng.IntN(5) == 0:
					n.silence(rng.IntN(2) == 0)
				default:
					n.change(func(m *iqv1.HeartbeatRequest) {
						m.Generation = int64(step)
						m.Draining, m.InFlight = rng.IntN(4) == 0, rng.Int32N(3)
						s := m.GetReplicas()[0]
						s.Role, s.State, s.Generation = iqv1.Role(1+rng.IntN(3)), iqv1.ReplicaState(1+rng.IntN(3)), int64(step)
						s.EndPosition += rng.Int64N(5)
						m.Inputs = []*iqv1.ReplicaInput{{Store: "s", InputPosition: atLeast("in", 0, rng.Int64N(9)).GetAtLeast()}}
						m.Dropped = []*iqv1.Dropped{{Sink: "k", Topic: "out", Records: rng.Int64N(9)}}
					})
				}
				advance(time.Duration(rng.IntN(300)) * time.Millisecond)
				if step%10 == 0 {
					for _, n := range nodes {
						if n != nil {
							n.silence(true) // no more figures, so that the slow one gets to the end
						}
					}
					advance(3 * time.Second)
					for _, r := range []*reader{fast, slow} {
						if err := r.agrees(); err != nil {
							t.Fatalf("seed %d, step %d: %v", seed, step, err)
						}
					}
					for _, n := range nodes {
						if n != nil {
							n.silence(false)
						}
					}
				}
			}
			if f, s := fast.count(), slow.count(); f <= s {
				t.Errorf("seed %d: the fast one got %d messages, the slow one %d", seed, f, s)
			}
			for _, n := range nodes {
				if n != nil {
					n.kill()
				}
			}
			fast.stop()
			slow.stop()
		})
	}
}

// TestUnknownUnassignedAndNoSuchPartitionAreThreeOutcomes of every method that can meet them: a store that nobody has told
// of, one that nobody holds yet, a partition beyond the store's count, and a router that was told nothing yet.
func TestUnknownUnassignedAndNoSuchPartitionAreThreeOutcomes(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t, ctx := w.t, w.t.Context()
		outcome := func(err error) string {
			reason := iqerr.ReasonOf(iqerr.FromStatus(err))
			if err == nil {
				return "OK"
			}
			return status.Code(err).String() + " " + iqerr.Name(reason)
		}
		check := func(method string, err error, want string) {
			t.Helper()
			if got := outcome(err); got != want {
				t.Errorf("%s: %s, want %s (%v)", method, got, want, err)
			}
		}
		watch := func(store string) error {
			r := w.follow(&iqv1.WatchMetadataRequest{Store: store})
			defer r.stop()
			return r.failure()
		}
		read := func(store string, partition *int32) error {
			_, err, _ := w.ask(&iqv1.GetRequest{Store: store, Key: []byte("k"), Partition: partition})
			return err
		}
		key := func(store, by string) error {
			_, err := w.meta.QueryKey(ctx, &iqv1.QueryKeyRequest{Store: store, Key: []byte("k"), Partitioner: by})
			return err
		}
		list := func(store string, standbys bool) error {
			_, err := w.meta.ListInstances(ctx, &iqv1.ListInstancesRequest{Store: store, StandbysOnly: standbys})
			return err
		}
		lags := func(store string) error {
			_, err := w.meta.ListLags(ctx, &iqv1.ListLagsRequest{Store: store})
			return err
		}
		explain := func(store string, partition *int32) (string, error) {
			resp, err := w.meta.Explain(ctx, &iqv1.ExplainRequest{Get: &iqv1.GetRequest{Store: store, Key: []byte("k"), Partition: partition}})
			return iqerr.Name(resp.GetReason()), err
		}
		all := func(store, want string) {
			t.Helper()
			check("Get", read(store, nil), want)
			check("QueryKey", key(store, ""), want)
			check("QueryKey by crc32", key(store, "crc32"), want)
			reason, err := explain(store, nil)
			check("Explain", err, "OK")
			if !strings.HasSuffix(want, " "+reason) {
				t.Errorf("Explain: %s, want %s", reason, want)
			}
		}
		listed := func(store, want string) {
			t.Helper()
			check("ListInstances", list(store, false), want)
			check("ListInstances of standbys", list(store, true), want)
			check("ListLags", lags(store), want)
			check("WatchMetadata", watch(store), want)
		}
		all("s", "Unavailable NOT_READY")
		listed("s", "Unavailable NOT_READY")
		a := w.join("a") // knows the store and holds nothing
		defer a.kill()
		all("t", "NotFound STORE_UNKNOWN")
		listed("t", "NotFound STORE_UNKNOWN")
		all("s", "Unavailable NOT_READY")
		listed("s", "OK") // nobody hosts it: an empty list is the answer, as Kafka Streams gives it
		beyond := new(int32(1))
		check("Get", read("s", beyond), "InvalidArgument INVALID")
		_, err := explain("s", beyond)
		check("Explain", err, "InvalidArgument INVALID")
		if !strings.Contains(err.Error(), "partition") {
			t.Errorf("Explain does not name the partition: %v", err)
		}
	})
}

// TestListInstancesTellsAllThatIsReported, and the standbys alone where asked.
func TestListInstancesTellsAllThatIsReported(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.start("a", "a:7070", 1, active(100)), w.join("b", standby(90, 100))
		defer a.kill()
		defer b.kill()
		misplaced := &iqv1.Misplaced{Store: "s", Topic: "in", Records: 3, FirstOffset: 17, FirstKey: []byte("k\xff"), Expected: []int32{2}}
		dropped := &iqv1.Dropped{Sink: "audit", Topic: "out", Records: 5}
		input := &iqv1.ReplicaInput{Store: "s", InputPosition: atLeast("in", 0, 42).GetAtLeast()}
		a.change(func(m *iqv1.HeartbeatRequest) {
			m.Draining, m.InFlight = true, 7
			m.Misplaced, m.Dropped, m.Inputs = []*iqv1.Misplaced{misplaced}, []*iqv1.Dropped{dropped}, []*iqv1.ReplicaInput{input}
		})
		advance(2 * heartbeatEvery)
		in := w.instances()[0]
		if !in.GetDraining() || in.GetInFlight() != 7 || in.GetInterval().AsDuration() != heartbeatEvery || in.GetSequence() < 2 || in.GetRefused() {
			t.Errorf("got %v", in)
		}
		if len(in.GetMisplaced()) != 1 || !proto.Equal(in.GetMisplaced()[0], misplaced) || len(in.GetDropped()) != 1 ||
			!proto.Equal(in.GetDropped()[0], dropped) || len(in.GetInputs()) != 1 || !proto.Equal(in.GetInputs()[0], input) {
			t.Errorf("got %v", in)
		}
		if in := w.instances()[1]; in.GetDraining() || len(in.GetMisplaced())+len(in.GetDropped())+len(in.GetInputs()) > 0 {
			t.Errorf("got %v", in)
		}
		// Who asks for one store is told of no other's keys, whether once or for long.
		a.change(func(m *iqv1.HeartbeatRequest) {
			m.Misplaced = append(m.Misplaced, &iqv1.Misplaced{Store: "other", Topic: "in", Records: 1, FirstKey: []byte("secret"), Expected: []int32{0}})
		})
		advance(2 * heartbeatEvery)
		if in := w.instances()[0]; len(in.GetMisplaced()) != 2 {
			t.Errorf("got %v", in)
		}
		one, err := w.meta.ListInstances(t.Context(), &iqv1.ListInstancesRequest{Store: "s"})
		if err != nil || len(one.GetInstances()[0].GetMisplaced()) != 1 || !proto.Equal(one.GetInstances()[0].GetMisplaced()[0], misplaced) {
			t.Errorf("instances of one store: %v, %v", one, err)
		}
		watch, err := w.meta.WatchMetadata(t.Context(), &iqv1.WatchMetadataRequest{Store: "s"})
		if err != nil {
			t.Fatal(err)
		}
		if told, err := watch.Recv(); err != nil || len(told.GetInstances()[0].GetMisplaced()) != 1 {
			t.Errorf("a watch of one store: %v, %v", told, err)
		}
		a.change(func(m *iqv1.HeartbeatRequest) { m.Draining = false })
		for { // the other node's changes are told too, and which comes first is open
			told, err := watch.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if in := told.GetInstances()[0]; in.GetNode() == "a" {
				if len(in.GetMisplaced()) != 1 {
					t.Errorf("a change of one store: %v", told)
				}
				break
			}
		}
		resp, err := w.meta.ListInstances(t.Context(), &iqv1.ListInstancesRequest{Store: "s", StandbysOnly: true})
		if err != nil || len(resp.GetInstances()) != 1 || resp.GetInstances()[0].GetNode() != "b" {
			t.Errorf("standbys: %v, %v", resp, err)
		}
		_, err = w.meta.ListInstances(t.Context(), &iqv1.ListInstancesRequest{StandbysOnly: true})
		if e, ok := errors.AsType[*iqerr.InvalidError](iqerr.FromStatus(err)); !ok || e.Field != "standbys_only" {
			t.Errorf("standbys of no store: %v", err)
		}
	})
}

// TestQueryKeyByTheNamedPartitioner: "foobar" of 12 is in 6 by murmur2 and elsewhere by the others.
func TestQueryKeyByTheNamedPartitioner(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		var all []*iqv1.ReplicaStatus
		for p := range int32(12) {
			s := active(1)
			s.Partition = p
			all = append(all, s)
		}
		a := w.start("a", "a:7070", 1, all...)
		defer a.kill()
		a.change(func(m *iqv1.HeartbeatRequest) { m.Stores[0].Partitions, m.Stores[0].ActualPartitions = 12, 12 })
		advance(2 * heartbeatEvery)
		got := map[string]int32{}
		for _, by := range []string{"", "murmur2", "crc32", "fnv1a"} {
			resp, err := w.meta.QueryKey(t.Context(), &iqv1.QueryKeyRequest{Store: "s", Key: []byte("foobar"), Partitioner: by})
			if err != nil || len(resp.GetPartitions()) != 1 || resp.GetPartitions()[0].GetActive().GetNode() != "a" {
				t.Fatalf("%q: %v, %v", by, resp, err)
			}
			got[by] = resp.GetPartitions()[0].GetPartition()
		}
		// crc32(foobar) is 0x9ef61f95, FNV-1a's 32 bits 0xbf9cf968 are negative for sarama, which takes the absolute.
		want := map[string]int32{"": 6, "murmur2": 6, "crc32": 0x9ef61f95 % 12, "fnv1a": int32((1<<32 - 0xbf9cf968) % 12)}
		if !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		_, err := w.meta.QueryKey(t.Context(), &iqv1.QueryKeyRequest{Store: "s", Partitioner: "mine"})
		if e, ok := errors.AsType[*iqerr.InvalidError](iqerr.FromStatus(err)); !ok || e.Field != "partitioner" ||
			!strings.Contains(err.Error(), "mine") || !strings.Contains(err.Error(), "murmur2") || status.Code(err) != codes.InvalidArgument {
			t.Errorf("unknown: %v", err)
		}
	})
}
