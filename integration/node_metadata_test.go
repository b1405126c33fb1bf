//go:build synctests

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/integration/bubble"
	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/node"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// outcomes asks a node everything about a store, a key of it and one of its partitions, and returns the reason of each
// refusal; REASON_UNSPECIFIED for an answer.
func outcomes(ctx context.Context, n *bubble.Node, store string, partition int32) map[string]iqv1.Reason {
	get := &iqv1.GetRequest{Store: store, Key: []byte("k"), Partition: &partition}
	reasons := map[string]iqv1.Reason{}
	note := func(method string, err error) { reasons[method] = iqerr.ReasonOf(iqerr.FromStatus(err)) }
	_, err := n.Query().Get(ctx, get)
	note("Get", err)
	_, err = n.Metadata().QueryKey(ctx, &iqv1.QueryKeyRequest{Store: store, Key: []byte("k")})
	note("QueryKey", err)
	_, err = n.Metadata().ListLags(ctx, &iqv1.ListLagsRequest{Store: store})
	note("ListLags", err)
	_, err = n.Metadata().ListInstances(ctx, &iqv1.ListInstancesRequest{Store: store})
	note("ListInstances", err)
	why, err := n.Metadata().Explain(ctx, &iqv1.ExplainRequest{Get: get})
	if err == nil {
		reasons["Explain"] = why.GetReason()
	} else {
		note("Explain", err)
	}
	w, err := n.Metadata().WatchMetadata(ctx, &iqv1.WatchMetadataRequest{Store: store})
	if err == nil {
		_, err = w.Recv()
	}
	note("WatchMetadata", err)
	return reasons
}

func allOf(reason iqv1.Reason) map[string]iqv1.Reason {
	want := map[string]iqv1.Reason{}
	for _, method := range []string{"Get", "QueryKey", "ListLags", "ListInstances", "Explain", "WatchMetadata"} {
		want[method] = reason
	}
	return want
}

// A store that the application does not have, one that nobody has been given yet, and a partition that the store does not
// have are three different outcomes of each question.
func TestUnknownStoreNotAssignedAndNoSuchPartitionDifferAtANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.New(t, bubble.Options{Topology: table, Log: verboseLog(t)})
		f := &fixture{Cluster: c, t: t, ctx: t.Context(), cl: c.Client()}
		f.adm = kadm.NewClient(f.cl)
		defer f.close()
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		expect := func(what string, n *bubble.Node, store string, partition int32, want map[string]iqv1.Reason) {
			t.Helper()
			if got := outcomes(ctx, n, store, partition); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, store %q, partition %d:\n%v\nwant %v", what, store, partition, got, want)
			}
		}

		n := f.StartNode("a") // its topic does not exist
		time.Sleep(5 * time.Second)
		for _, store := range []string{"table", "nobody's"} { // which stores there are it knows with the topics
			expect("without topics", n, store, 0, allOf(iqv1.Reason_REASON_NOT_READY))
		}

		f.Kafka.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
			f.Kafka.KeepControl()
			resp := req.ResponseKind().(*kmsg.JoinGroupResponse) //nolint:forcetypeassert // of this request
			resp.Version, resp.ErrorCode = req.GetVersion(), kerr.CoordinatorNotAvailable.Code
			return resp, nil, true
		})
		if _, err := f.adm.CreateTopic(f.ctx, 3, 1, nil, "in"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		expect("not assigned", n, "table", 0, allOf(iqv1.Reason_REASON_NOT_READY))
		expect("not assigned", n, "nobody's", 0, allOf(iqv1.Reason_REASON_STORE_UNKNOWN))
		nowhere := allOf(iqv1.Reason_REASON_NOT_READY)
		nowhere["Get"], nowhere["Explain"] = iqv1.Reason_REASON_INVALID, iqv1.Reason_REASON_INVALID
		expect("not assigned", n, "table", 3, nowhere)
		n.Kill()

		f.Kafka.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
			f.Kafka.KeepControl()
			return nil, nil, false
		})
	})
}

// The same when the node has its assignment.
func TestUnknownStoreAndNoSuchPartitionDifferAtAnAssignedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3)
		defer f.close()
		n := f.StartNode("a")
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		f.Eventually(30*time.Second, "all are answered", func() error {
			for p := range int32(3) {
				if got := outcomes(ctx, n, "table", p); fmt.Sprint(got) != fmt.Sprint(allOf(iqv1.Reason_REASON_UNSPECIFIED)) {
					return fmt.Errorf("%v", got)
				}
			}
			return nil
		})
		if got, want := outcomes(ctx, n, "nobody's", 0), allOf(iqv1.Reason_REASON_STORE_UNKNOWN); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("unknown store: %v", got)
		}
		for _, partition := range []int32{-1, 3} {
			want := allOf(iqv1.Reason_REASON_UNSPECIFIED)
			want["Get"], want["Explain"] = iqv1.Reason_REASON_INVALID, iqv1.Reason_REASON_INVALID
			if got := outcomes(ctx, n, "table", partition); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("partition %d: %v", partition, got)
			}
		}
		var e *iqerr.StoreUnknownError
		_, err := n.Metadata().ListLags(ctx, &iqv1.ListLagsRequest{Store: "nobody's"})
		if !errors.As(iqerr.FromStatus(err), &e) || !slices.Equal(e.Known, []string{"table"}) {
			t.Errorf("the known stores are not named: %v", err)
		}
	})
}

// QueryKey finds a key by another partitioner than the store's when it is asked to, and names the known ones.
func TestNodeFindsAKeyByANamedPartitioner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3)
		defer f.close()
		n := f.StartNode("a", func(cfg *node.Config) { cfg.Partitioners = casters() })
		f.waitAssigned(n)
		key := "pair-1"
		for i := 2; partitioner.CRC32().Partition([]byte(key), 3) == partitioner.Murmur2().Partition([]byte(key), 3); i++ {
			key = fmt.Sprintf("pair-%d", i)
		}
		hash, other := fmt.Sprint([]int32{partitioner.Murmur2().Partition([]byte(key), 3)}), fmt.Sprint([]int32{partitioner.CRC32().Partition([]byte(key), 3)})
		for name, want := range map[string]string{"": hash, "murmur2": hash, "crc32": other, "caster": "[0 2]"} {
			resp, err := n.Metadata().QueryKey(f.ctx, &iqv1.QueryKeyRequest{Store: "table", Key: []byte(key), Partitioner: name})
			var got []int32
			for _, p := range resp.GetPartitions() {
				got = append(got, p.GetPartition())
			}
			if err != nil || fmt.Sprint(got) != want {
				t.Errorf("by %q it is in %v (%v), want %s", name, got, err, want)
			}
		}
		_, err := n.Metadata().QueryKey(f.ctx, &iqv1.QueryKeyRequest{Store: "table", Key: []byte("k"), Partitioner: "nobody's"})
		err = iqerr.FromStatus(err)
		if !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), "nobody's") || !strings.Contains(err.Error(), "caster") || !strings.Contains(err.Error(), "fnv1a") {
			t.Errorf("an unknown partitioner gave %v", err)
		}
	})
}

func (f *fixture) waitAssigned(n *bubble.Node) {
	f.t.Helper()
	f.Eventually(30*time.Second, "an assignment", func() error {
		_, err := n.Metadata().ListInstances(f.ctx, &iqv1.ListInstancesRequest{})
		return err
	})
}

// standbys_only leaves out who is the active of all that it has of the store, and the active's partitions of the rest.
func TestNodeListsStandbysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		a, b := f.pair()
		for _, n := range []*bubble.Node{a, b} {
			resp, err := n.Metadata().ListInstances(f.ctx, &iqv1.ListInstancesRequest{Store: "table", StandbysOnly: true})
			if err != nil || len(resp.GetInstances()) != 1 || resp.GetInstances()[0].GetNode() != "b" {
				t.Fatalf("at %s: %v, %v", n.ID, resp, err)
			}
			in := resp.GetInstances()[0]
			if len(in.GetActiveStores())+len(in.GetActivePartitions()) > 0 || !slices.Equal(in.GetStandbyStores(), []string{"table"}) || len(in.GetStandbyPartitions()) != 1 {
				t.Errorf("at %s: %v", n.ID, in)
			}
			if own := n == b; (len(in.GetReplicas()) == 1) != own || (in.GetIncarnation() > 0) != own {
				t.Errorf("at %s: %v", n.ID, in)
			}
			if _, err := n.Metadata().ListInstances(f.ctx, &iqv1.ListInstancesRequest{StandbysOnly: true}); !errors.Is(iqerr.FromStatus(err), iqerr.ErrInvalid) {
				t.Errorf("without a store: %v", err)
			}
		}
	})
}

// told is what the messages of a stream make.
type told struct {
	version   int64
	instances map[string]*iqv1.Instance
	stores    []*iqv1.StoreInfo
	messages  int
}

func (w *told) apply(m *iqv1.WatchMetadataResponse) error {
	if m.GetVersion() <= w.version || (w.version == 0) != m.GetSnapshot() {
		return fmt.Errorf("after version %d came %v", w.version, m)
	}
	if m.GetSnapshot() {
		w.instances = map[string]*iqv1.Instance{}
	}
	w.version = m.GetVersion()
	w.messages++
	for _, id := range m.GetGone() {
		delete(w.instances, id)
	}
	for _, in := range m.GetInstances() {
		w.instances[in.GetNode()] = in
	}
	if len(m.GetStores()) > 0 {
		w.stores = m.GetStores()
	}
	return nil
}

// timeless is an instance without what passes by itself.
func timeless(in *iqv1.Instance) string {
	in = proto.CloneOf(in)
	in.Sequence, in.LastHeard = 0, nil
	for _, r := range in.GetReplicas() {
		r.TimeLag, r.SampleAge = nil, nil
	}
	return in.String()
}

// The messages of a node's stream, applied one after another, give what it lists; a change of roles or stores is told at
// once although the reader has asked for figures once a minute.
func TestWatchedMetadataIsWhatTheNodeLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3)
		defer f.close()
		a := f.StartNode("a")
		f.waitAssigned(a)
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		streams := map[time.Duration]chan *iqv1.WatchMetadataResponse{}
		for _, interval := range []time.Duration{100 * time.Millisecond, time.Minute} {
			w, err := a.Metadata().WatchMetadata(ctx, &iqv1.WatchMetadataRequest{LagInterval: durationpb.New(interval)})
			if err != nil {
				t.Fatal(err)
			}
			ch := make(chan *iqv1.WatchMetadataResponse, 10_000)
			streams[interval] = ch
			go func() {
				defer close(ch)
				for {
					m, err := w.Recv()
					if err != nil {
						return
					}
					ch <- m
				}
			}()
		}
		quick, slow := &told{}, &told{}
		catchUp := func() {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			for interval, w := range map[time.Duration]*told{100 * time.Millisecond: quick, time.Minute: slow} {
				for len(streams[interval]) > 0 {
					if err := w.apply(<-streams[interval]); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		compare := func(what string) {
			t.Helper()
			catchUp()
			resp, err := a.Metadata().ListInstances(ctx, &iqv1.ListInstancesRequest{})
			if err != nil {
				t.Fatal(err)
			}
			stores, err := a.Metadata().ListStores(ctx, &iqv1.ListStoresRequest{})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range []*told{quick, slow} {
				if len(w.instances) != len(resp.GetInstances()) {
					t.Fatalf("%s: told of %d instances, listed are %v", what, len(w.instances), resp)
				}
				if fmt.Sprint(w.stores) != fmt.Sprint(stores.GetStores()) {
					t.Errorf("%s: told of stores %v, listed are %v", what, w.stores, stores)
				}
			}
			for _, in := range resp.GetInstances() {
				if got := quick.instances[in.GetNode()]; timeless(got) != timeless(in) {
					t.Errorf("%s: told %v\nlisted %v", what, timeless(got), timeless(in))
				}
				got := slow.instances[in.GetNode()]
				if fmt.Sprint(got.GetActivePartitions(), got.GetStandbyPartitions(), got.GetGeneration()) != fmt.Sprint(in.GetActivePartitions(), in.GetStandbyPartitions(), in.GetGeneration()) {
					t.Errorf("%s: the slow stream told %v\nlisted %v", what, got, in)
				}
				for i, r := range in.GetReplicas() {
					if s := got.GetReplicas()[i]; s.GetRole() != r.GetRole() || s.GetState() != r.GetState() || s.GetLeaseValid() != r.GetLeaseValid() {
						t.Errorf("%s: the slow stream told %v\nlisted %v", what, s, r)
					}
				}
			}
		}
		f.Eventually(30*time.Second, "all run", func() error {
			resp, err := a.Metadata().ListLags(ctx, &iqv1.ListLagsRequest{})
			for _, r := range resp.GetReplicas() {
				if r.GetState() != iqv1.ReplicaState_REPLICA_STATE_RUNNING {
					err = errors.New(r.String())
				}
			}
			return err
		})
		compare("alone")
		b := f.StartNode("b")
		time.Sleep(20 * time.Second)
		compare("with b")
		for i := range 30 {
			f.input(&kgo.Record{Partition: int32(i % 3), Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v")})
		}
		compare("with records")
		b.Kill()
		time.Sleep(time.Minute)
		compare("without b")
		before := [2]int{quick.messages, slow.messages}
		for i := range 60_000 / 50 {
			f.input(&kgo.Record{Partition: int32(i % 3), Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v")})
			time.Sleep(50 * time.Millisecond)
		}
		compare("after a minute of records")
		if n := quick.messages - before[0]; n < 400 || n > 620 {
			t.Errorf("%d messages in a minute at 100ms", n)
		}
		if n := slow.messages - before[1]; n < 1 || n > 2 {
			t.Errorf("%d messages in a minute at one a minute", n)
		}
		if _, err := f.adm.CreatePartitions(f.ctx, 1, "in"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		compare("with another count")
		if got := slow.stores[0].GetActualPartitions(); got != 4 {
			t.Errorf("the stream tells of %d partitions", got)
		}

		began := time.Now()
		a.Stop()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the streams held the node's end up for %s", took)
		}
		for _, ch := range streams {
			for range ch {
				continue // until it is closed
			}
		}
	})
}

// A node that drains says so at once to those who watch it, although they have asked for figures once a minute, and its
// stream ends as CLOSING, which a client takes for a reason to ask another.
func TestWatchersHearThatANodeDrainsAndThenCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		a, _ := f.pair()
		w, err := a.Metadata().WatchMetadata(f.ctx, &iqv1.WatchMetadataRequest{LagInterval: durationpb.New(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := w.Recv(); err != nil || !m.GetSnapshot() || m.GetInstances()[0].GetDraining() {
			t.Fatalf("%v, %v", m, err)
		}
		ended := make(chan struct{})
		began := time.Now()
		go func() {
			defer close(ended)
			a.Stop()
		}()
		draining := false
		for {
			m, err := w.Recv()
			if err != nil {
				if !errors.Is(iqerr.FromStatus(err), iqerr.ErrClosing) {
					t.Errorf("the stream ended with %v", err)
				}
				break
			}
			for _, in := range m.GetInstances() {
				if in.GetNode() == "a" && in.GetDraining() && !draining {
					draining = true
					if took := time.Since(began); took > 200*time.Millisecond {
						t.Errorf("told after %s", took)
					}
				}
			}
		}
		if !draining {
			t.Error("nobody was told")
		}
		<-ended
	})
}

// A stream that asks for lags more often than a node tells them is refused, and so is one more than the node serves.
func TestNodeBoundsItsWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1)
		defer f.close()
		n := f.StartNode("a")
		f.waitAssigned(n)
		open := func(ctx context.Context, interval *durationpb.Duration) error {
			w, err := n.Metadata().WatchMetadata(ctx, &iqv1.WatchMetadataRequest{LagInterval: interval})
			if err == nil {
				_, err = w.Recv()
			}
			return iqerr.FromStatus(err)
		}
		for _, d := range []time.Duration{-1, 0, 10*time.Millisecond - 1} {
			if err := open(f.ctx, durationpb.New(d)); !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), "lag_interval") {
				t.Errorf("an interval of %s gave %v", d, err)
			}
		}
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		opened := 0
		for ; opened < 1000; opened++ {
			if err := open(ctx, durationpb.New(time.Minute)); err != nil {
				if !errors.Is(err, iqerr.ErrOverloaded) {
					t.Error(err)
				}
				break
			}
		}
		if opened != 256 {
			t.Errorf("%d streams were served", opened)
		}
		cancel()
		again, end := context.WithCancel(f.ctx)
		defer end()
		f.Eventually(5*time.Second, "a stream is served again", func() error { return open(again, nil) })
	})
}
