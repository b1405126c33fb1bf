package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/partitioner"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// TestS14LagIsMeasuredAgainstTheLargestEnd: the active told of 1000 and died; the standby still says 90 of 100.

func TestS14LagIsMeasuredAgainstTheLargestEnd(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, s := w.join("a", active(1000)), w.join("s", standby(90, 100))
		defer s.kill()
		a.kill()
		for _, after := range []time.Duration{0, time.Second, 5 * time.Second} { // refused, suspect, dead
			advance(after)
			_, err, _ := w.ask(maxOffsetLag(50))
			stale, ok := errors.AsType[*iqerr.StaleError](iqerr.FromStatus(err))
			if !ok || *stale.MaxOffsetLag != 50 || !strings.Contains(err.Error(), "910") || !strings.Contains(err.Error(), "50") {
				t.Errorf("after %s: %v", after, err)
			}
			resp, err, _ := w.ask(maxOffsetLag(1000))
			if err != nil || resp.GetServed().GetNode() != "s" || resp.GetServed().GetOffsetLag() != 910 {
				t.Errorf("after %s: %v, %v", after, resp, err)
			}
		}
	})
}

// TestS15DeadNodeHasNoLagAndIsNeverDialed: its last figures were lag 0.

func TestS15DeadNodeHasNoLagAndIsNeverDialed(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		n := w.join("n", active(2049200))
		if lags := w.lags(); len(lags) != 1 || lags[0].GetOffsetLag() != 0 {
			t.Fatalf("one node alone: %v", lags)
		}
		n.kill()
		advance(2100 * time.Millisecond)
		in := w.instances()
		if len(in) != 1 || in[0].GetAlive() || len(in[0].GetReplicas()) != 0 || len(w.lags()) != 0 {
			t.Errorf("dead: %v, lags %v", in, w.lags())
		}
		dials := w.dialed("n:7070")
		for _, mode := range []iqv1.ReadPolicy_Mode{modeAny, modeActive, modeStrong} {
			if _, err, _ := w.ask(get(mode)); !errors.Is(iqerr.FromStatus(err), iqerr.ErrNoReplica) {
				t.Errorf("%s: %v", mode, err)
			}
		}
		advance(time.Minute)
		if got := w.dialed("n:7070"); got != dials {
			t.Errorf("dialed %d times after it was dead", got-dials)
		}
	})
}

// A read that a node does not answer ends when the node is dead, with a reason: the router closes the connection, which the
// client library calls cancelled, and callers got "the client connection is closing".
func TestReadAtANodeThatDiesIsRefusedWithAReason(t *testing.T) {
	inBubble(t, Config{NodeTimeout: time.Second}, func(w *world) {
		t := w.t
		n, b := w.join("n", active(10)), w.join("b", standby(10, 10))
		defer b.kill()
		n.hangs()
		n.silence(true)
		_, err, took := w.ask(get(modeStrong))
		if reason := iqerr.ReasonOf(iqerr.FromStatus(err)); reason != iqv1.Reason_REASON_NO_ACTIVE {
			t.Errorf("after %s: %v", took, err)
		}
		n.kill()
	})
}

func TestS15LeavingNodeIsRemovedAtOnce(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		n, b := w.join("n", active(10)), w.join("b", standby(10, 10))
		defer b.kill()
		n.change(func(m *iqv1.HeartbeatRequest) { m.Leaving = true })
		advance(heartbeatEvery)
		if in := w.instances(); len(in) != 1 || in[0].GetNode() != "b" {
			t.Errorf("listed: %v", in)
		}
		if got := b.suspects(); got != "" {
			t.Errorf("b was told of %q", got)
		}
		n.kill()
	})
}

// TestS19EachCauseIsAnOutcomeOfItsOwn, with the hosts and the numbers.

func TestS19EachCauseIsAnOutcomeOfItsOwn(t *testing.T) {
	restoring := active(5)
	restoring.State, restoring.EndPosition = iqv1.ReplicaState_REPLICA_STATE_RESTORING, 10
	seen := map[string]bool{}
	for name, c := range map[string]struct {
		replicas []*iqv1.ReplicaStatus
		request  *iqv1.GetRequest
		kill     bool
		want     error
		words    []string
	}{
		"no live host":        {[]*iqv1.ReplicaStatus{active(10)}, get(modeAny), true, iqerr.ErrNoReplica, []string{"s/0", "a ", "silent for"}},
		"lag 500 over 100":    {[]*iqv1.ReplicaStatus{standby(500, 1000)}, maxOffsetLag(100), false, iqerr.ErrStale, []string{"s/0", "a ", "500", "100"}},
		"unassigned":          {nil, get(modeAny), false, iqerr.ErrNotReady, []string{"s/0"}},
		"unknown store":       {nil, &iqv1.GetRequest{Store: "t"}, false, iqerr.ErrStoreUnknown, []string{`"t"`, "s"}},
		"the node restores":   {[]*iqv1.ReplicaStatus{restoring}, get(modeActive), false, iqerr.ErrNoActive, []string{"s/0", "a ", "restoring", "5", "10"}},
		"no such partition":   {nil, &iqv1.GetRequest{Store: "s", Partition: new(int32(7))}, false, iqerr.ErrInvalid, []string{"7", "1"}},
		"another application": {nil, &iqv1.GetRequest{Store: "s", Application: "other"}, false, iqerr.ErrInvalid, []string{"other", "app"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(w *world) {
				t := w.t
				a := w.join("a", c.replicas...)
				if c.kill {
					a.kill()
					advance(3 * time.Second)
				} else {
					defer a.kill()
				}
				_, err, _ := w.ask(c.request)
				if !errors.Is(iqerr.FromStatus(err), c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				for _, word := range c.words {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%v does not say %q", err, word)
					}
				}
				if key := err.Error(); seen[key] {
					t.Errorf("%v is the text of another cause too", err)
				} else {
					seen[key] = true
				}
			})
		})
	}
}

func TestS20ReadBeforeTheFirstReportIsNotReady(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		_, err, _ := w.ask(get(modeAny))
		if e, ok := errors.AsType[*iqerr.NotReadyError](iqerr.FromStatus(err)); !ok || e.RetryAfter <= 0 || status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	})
}

// TestS20SecondNodeWithATakenAddressIsRefused, and the first stays routed.

func TestS20SecondNodeWithATakenAddressIsRefused(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(10))
		defer a.kill()
		twin := w.start("twin", "twin:7070", 1, standby(10, 10))
		twin.change(func(m *iqv1.HeartbeatRequest) { m.Address = "a:7070" })
		advance(2 * heartbeatEvery)
		twin.mu.Lock()
		err := iqerr.FromStatus(twin.refused)
		twin.mu.Unlock()
		if e, ok := errors.AsType[*iqerr.InvalidError](err); !ok || e.Field != "address" || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("the second node was told %v", err)
		}
		if resp, err, _ := w.ask(get(modeActive)); err != nil || string(resp.GetValue()) != "from a" {
			t.Errorf("got %v, %v", resp, err)
		}
		twin.kill()
	})
}

// TestWrongAddressIsNoReasonToThrowANodeOut: a node that reports lives, even if its address refuses.

func TestWrongAddressIsNoReasonToThrowANodeOut(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(99, 100))
		defer b.kill()
		w.unlisten("a:7070")
		a.server.Stop()
		for range 20 {
			if resp, err, took := w.ask(get(modeAny)); err != nil || string(resp.GetValue()) != "from b" || took > time.Millisecond {
				t.Fatalf("got %v, %v after %s", resp, err, took)
			}
			advance(30 * time.Millisecond)
			if got := b.suspects(); got != "" {
				t.Fatalf("b was told of %q", got)
			}
		}
		a.kill()
	})
}

// TestS29ChangedPartitionCountIsRefused, whichever node has noticed first.

func TestS29ChangedPartitionCountIsRefused(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(100, 100))
		defer a.kill()
		defer b.kill()
		b.change(func(m *iqv1.HeartbeatRequest) { m.Stores[0].ActualPartitions = 6 })
		advance(heartbeatEvery)
		_, err, _ := w.ask(get(modeAny))
		e, ok := errors.AsType[*iqerr.PartitionsChangedError](iqerr.FromStatus(err))
		if !ok || e.Want != 1 || e.Have != 6 || e.Store != "s" || e.Topic != "in" || status.Code(err) != codes.FailedPrecondition {
			t.Errorf("got %v", err)
		}
	})
}

// TestS31LargeValuePasses both hops, and the connection is good afterwards.

func TestS31LargeValuePasses(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.join("a", active(100))
		defer a.kill()
		for _, size := range []int{4194304 - 100, 4561623, 20 << 20, 1} {
			value := bytes.Repeat([]byte{'x'}, size)
			a.answers(func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) {
				return &iqv1.GetResponse{Found: true, Value: value}, nil
			})
			resp, err, _ := w.ask(get(modeAny))
			if err != nil || !bytes.Equal(resp.GetValue(), value) {
				t.Errorf("%d bytes: got %d, %v", size, len(resp.GetValue()), err)
			}
		}
		if got := w.dialed("a:7070"); got != 1 {
			t.Errorf("%d connections", got)
		}
	})
}

// TestWrongRequestsNameFieldAndValue sends each kind of wrong request before any node has reported: it is wrong then too.

// TestS01RouterFindsThePartitionOfTheKey asks through gRPC.

func TestS01RouterFindsThePartitionOfTheKey(t *testing.T) {
	for _, c := range []struct {
		key        string
		partitions int32
		want       int32
	}{
		{"21", 12, 0},
		{"foobar", 12, 6},
		{"a-little-bit-longer-string", 7, 0},
		{"bob", 12, 6},
		{"\xa7\xd6\x50\x6c", 3, 0},
		{"", 3, 0},
		{"", 12, 9},
	} {
		inBubble(t, Config{}, func(w *world) {
			t := w.t
			var all []*iqv1.ReplicaStatus
			for p := range c.partitions {
				r := active(1)
				r.Partition = p
				all = append(all, r)
			}
			a := w.start("a", "a:7070", 1, all...)
			defer a.kill()
			a.change(func(m *iqv1.HeartbeatRequest) {
				m.Stores[0].Partitions, m.Stores[0].ActualPartitions = c.partitions, c.partitions
			})
			advance(2 * heartbeatEvery)
			resp, err := w.meta.QueryKey(t.Context(), &iqv1.QueryKeyRequest{Store: "s", Key: []byte(c.key)})
			if err != nil || len(resp.GetPartitions()) != 1 || resp.GetPartitions()[0].GetPartition() != c.want ||
				resp.GetPartitions()[0].GetActive().GetNode() != "a" {
				t.Errorf("%q of %d: %v, %v; want %d", c.key, c.partitions, resp, err, c.want)
			}
			got, err, _ := w.ask(&iqv1.GetRequest{Store: "s", Key: []byte(c.key)})
			if err != nil || got.GetServed().GetPartition() != c.want {
				t.Errorf("%q of %d: %v, %v; want %d", c.key, c.partitions, got, err, c.want)
			}
		})
	}
}

// TestS28MulticastKeyIsLookedUpInAnyOfItsPartitions: in the next one when the first is gone or does not have it; a key

// that is dropped is nowhere.

func TestS28MulticastKeyIsLookedUpInAnyOfItsPartitions(t *testing.T) {
	choose := func(_ string, key, _ []byte, _ int32) partitioner.Choice {
		switch kind, _, _ := strings.Cut(string(key), "-"); kind {
		case "pair":
			return partitioner.Partitions(0, 2)
		case "drop":
			return partitioner.Drop()
		default:
			return partitioner.Default()
		}
	}
	registry, err := partitioner.NewRegistry(partitioner.Custom("mine", nil, choose))
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, Config{Partitioners: registry}, func(w *world) {
		t := w.t
		nodes := make([]*fakeNode, 3)
		found := map[string]bool{}
		for p := range nodes {
			r := active(1)
			r.Partition = int32(p)
			n := w.start(fmt.Sprintf("n%d", p), fmt.Sprintf("n%d:7070", p), 1, r)
			n.change(func(m *iqv1.HeartbeatRequest) {
				m.Stores[0].Partitions, m.Stores[0].ActualPartitions, m.Stores[0].Partitioner = 3, 3, "mine"
			})
			n.answers(func(_ context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
				return &iqv1.GetResponse{Found: found[n.id], Value: []byte(n.id), Served: n.status(m)}, nil
			})
			nodes[p] = n
		}
		advance(2 * heartbeatEvery)
		pair := &iqv1.GetRequest{Store: "s", Key: []byte("pair-1")}
		found["n2"] = true
		if resp, err, _ := w.ask(pair); err != nil || string(resp.GetValue()) != "n2" {
			t.Errorf("only in 2: %v, %v", resp, err)
		}
		found["n0"] = true
		if resp, err, _ := w.ask(pair); err != nil || string(resp.GetValue()) != "n0" {
			t.Errorf("in both: %v, %v", resp, err)
		}
		key, err := w.meta.QueryKey(t.Context(), &iqv1.QueryKeyRequest{Store: "s", Key: []byte("pair-1")})
		if err != nil || len(key.GetPartitions()) != 2 {
			t.Errorf("partitions: %v, %v", key, err)
		}
		clear(found)
		if resp, err, _ := w.ask(pair); err != nil || resp.GetFound() {
			t.Errorf("in neither: %v, %v", resp, err)
		}
		if resp, err, _ := w.ask(&iqv1.GetRequest{Store: "s", Key: []byte("drop-1")}); err != nil || resp.GetFound() {
			t.Errorf("dropped: %v, %v", resp, err)
		}
		found["n2"] = true
		nodes[0].kill()
		if resp, err, _ := w.ask(pair); err != nil || string(resp.GetValue()) != "n2" {
			t.Errorf("with n0 gone: %v, %v", resp, err)
		}
		nodes[1].kill()
		nodes[2].kill()
	})
}

// TestS02UnknownPartitionerIsNamed: hashing with another one would find nothing (S02).

func TestS02UnknownPartitionerIsNamed(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a := w.start("a", "a:7070", 1, active(1))
		defer a.kill()
		a.change(func(m *iqv1.HeartbeatRequest) { m.Stores[0].Partitioner = "mine" })
		advance(2 * heartbeatEvery)
		if _, err, _ := w.ask(get(modeAny)); !errors.Is(iqerr.FromStatus(err), iqerr.ErrNotReady) || !strings.Contains(err.Error(), `"mine"`) {
			t.Errorf("got %v", err)
		}
	})
}

// TestExplainSaysWhyForEachReplica, in the reply of a read and on its own, refusals included.

func TestExplainSaysWhyForEachReplica(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(10, 100))
		defer a.kill()
		defer b.kill()
		m := maxOffsetLag(50)
		m.Explain = true
		resp, err, _ := w.ask(m)
		c := resp.GetDecision().GetCandidates()
		if err != nil || len(c) != 2 || !c[0].GetEligible() || c[0].GetRank() != 1 || c[1].GetEligible() ||
			c[1].GetReason() != iqv1.Reason_REASON_STALE || !strings.Contains(c[1].GetWhy(), "90 offsets behind, more than 50") {
			t.Errorf("got %v, %v", resp, err)
		}
		a.kill()
		why, err := w.meta.Explain(t.Context(), &iqv1.ExplainRequest{Get: get(modeStrong)})
		if err != nil || why.GetReason() != iqv1.Reason_REASON_NO_ACTIVE || why.GetError() == "" || len(why.GetDecision().GetCandidates()) != 2 {
			t.Errorf("got %v, %v", why, err)
		}
	})
}

// TestDefaultPolicyIsForReadsThatNameNone. The node is given it whole.

// TestHealthFollowsTheNodes: not serving before the first report, serving after it, and reflection knows the services.

func TestHealthFollowsTheNodes(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		health := healthpb.NewHealthClient(w.conn)
		check := func(want healthpb.HealthCheckResponse_ServingStatus) {
			t.Helper()
			for _, s := range []string{"", "iq.v1.QueryService"} {
				if resp, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: s}); err != nil || resp.GetStatus() != want {
					t.Errorf("%q: %v, %v; want %s", s, resp, err, want)
				}
			}
		}
		check(healthpb.HealthCheckResponse_NOT_SERVING)
		a := w.join("a", active(1))
		defer a.kill()
		check(healthpb.HealthCheckResponse_SERVING)
		stream, err := reflectionpb.NewServerReflectionClient(w.conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		if err != nil || !strings.Contains(resp.String(), "iq.v1.QueryService") || !strings.Contains(resp.String(), "iq.v1.ControlService") {
			t.Errorf("reflection: %v, %v", resp, err)
		}
		_ = stream.CloseSend()
	})
}

// TestStopEndsHeartbeatsAndLetsReadsFinish. A read that waits ends at once, and one that hangs when StopTimeout is over.

func TestStopEndsHeartbeatsAndLetsReadsFinish(t *testing.T) {
	inBubble(t, Config{StopTimeout: 500 * time.Millisecond}, func(w *world) {
		t := w.t
		a := w.join("a", active(100))
		defer a.kill()
		a.answers(func(ctx context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			if string(m.GetKey()) != "hangs" {
				time.Sleep(200 * time.Millisecond)
				return &iqv1.GetResponse{Found: true}, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		type end struct {
			err error
			at  time.Duration
		}
		start := time.Now()
		read := func(m *iqv1.GetRequest) chan end {
			c := make(chan end, 1)
			go func() {
				_, err := w.client.Get(t.Context(), m)
				c <- end{err, time.Since(start)}
			}()
			return c
		}
		held := get(modeStrong) // of a partition that nobody holds
		held.Policy.Wait = durationpb.New(time.Hour)
		a.change(func(m *iqv1.HeartbeatRequest) {
			m.Stores[0].Partitions, m.Stores[0].ActualPartitions = 2, 2
		})
		held.Partition = new(int32(1))
		advance(heartbeatEvery)
		slow, hung, waits := read(&iqv1.GetRequest{Store: "s", Partition: new(int32(0)), Key: []byte("slow")}),
			read(&iqv1.GetRequest{Store: "s", Partition: new(int32(0)), Key: []byte("hangs")}), read(held)
		advance(50 * time.Millisecond)
		w.stop()
		if e := <-waits; !errors.Is(iqerr.FromStatus(e.err), iqerr.ErrClosing) || e.at != 150*time.Millisecond {
			t.Errorf("the one that waits: %v", e)
		}
		if e := <-slow; e.err != nil {
			t.Errorf("the slow one: %v", e)
		}
		if e := <-hung; e.err == nil || e.at != 650*time.Millisecond {
			t.Errorf("the one that hangs: %v", e)
		}
		a.mu.Lock()
		if !errors.Is(iqerr.FromStatus(a.refused), iqerr.ErrClosing) {
			t.Errorf("the node was told %v", a.refused)
		}
		a.mu.Unlock()
		w.ended <- <-w.ended // for inBubble to look at
	})
}

// TestOverloadIsRefusedAtOnce holds one read and sends another where one is the limit.

func TestOverloadIsRefusedAtOnce(t *testing.T) {
	inBubble(t, Config{MaxInFlight: 1}, func(w *world) {
		t := w.t
		a := w.join("a", active(1))
		defer a.kill()
		a.hangs()
		go func() { _, _, _ = w.ask(get(modeAny)) }()
		advance(time.Millisecond)
		_, err, took := w.ask(get(modeAny))
		if e, ok := errors.AsType[*iqerr.OverloadedError](iqerr.FromStatus(err)); !ok || e.Limit != 1 || took != 0 {
			t.Errorf("got %v after %s", err, took)
		}
		advance(3 * time.Second)
		if got := w.router.inFlight.Load(); got != 0 {
			t.Errorf("%d reads are still counted", got)
		}
	})
}

// TestStreamIsOneNodes: a report of another node or incarnation on it ends it, and so does one with wrong fields.

// TestPausedRouterBlamesNoNode: after a pause of its own process the router waits for the nodes to report.

func TestPausedRouterBlamesNoNode(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := pauseDetector{patience: 400 * time.Millisecond, last: now}
	step := func(d time.Duration) bool {
		now = now.Add(d)
		return p.forgives(now)
	}
	for range 10 {
		if step(50 * time.Millisecond) {
			t.Fatal("no pause, and yet forgiven")
		}
	}
	if !step(10 * time.Second) {
		t.Fatal("a pause of 10s is not forgiven")
	}
	for range 7 {
		if !step(50 * time.Millisecond) {
			t.Fatal("the nodes have had no time to report yet")
		}
	}
	if step(50 * time.Millisecond) {
		t.Fatal("forgiven for longer than the patience")
	}
}

// TestConfigNamesEveryBadField reports all at once.

// TestDomainAndWireNumberRolesAndStatesAlike, which the conversions rely on.

func (w *world) instances() []*iqv1.Instance {
	w.t.Helper()
	resp, err := w.meta.ListInstances(w.t.Context(), &iqv1.ListInstancesRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.GetInstances()
}

func (w *world) lags() []*iqv1.ReplicaStatus {
	w.t.Helper()
	resp, err := w.meta.ListLags(w.t.Context(), &iqv1.ListLagsRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.GetReplicas()
}

// TestMetadataServiceInKafkaStreamsWords asks everything of a small cluster.

func TestMetadataServiceInKafkaStreamsWords(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		a, b := w.join("a", active(100)), w.join("b", standby(90, 100))
		defer a.kill()
		defer b.kill()
		stores, err := w.meta.ListStores(t.Context(), &iqv1.ListStoresRequest{})
		if err != nil || len(stores.GetStores()) != 1 || stores.GetStores()[0].GetName() != "s" || stores.GetStores()[0].GetPartitioner() != "murmur2" {
			t.Errorf("stores: %v, %v", stores, err)
		}
		var lines []string
		for _, in := range w.instances() {
			lines = append(lines, in.GetNode()+" active "+topicPartitions(in.GetActivePartitions())+" standby "+topicPartitions(in.GetStandbyPartitions()))
		}
		if got := strings.Join(lines, "; "); got != "a active in-0 standby ; b active  standby in-0" {
			t.Errorf("instances: %s", got)
		}
		if _, err := w.meta.ListInstances(t.Context(), &iqv1.ListInstancesRequest{Store: "t"}); !errors.Is(iqerr.FromStatus(err), iqerr.ErrStoreUnknown) {
			t.Errorf("instances of no store: %v", err)
		}
		if _, err := w.meta.ListLags(t.Context(), &iqv1.ListLagsRequest{Store: "t"}); !errors.Is(iqerr.FromStatus(err), iqerr.ErrStoreUnknown) {
			t.Errorf("lags of no store: %v", err)
		}
		key, err := w.meta.QueryKey(t.Context(), &iqv1.QueryKeyRequest{Store: "s"})
		if err != nil || key.GetPartitions()[0].GetActive().GetNode() != "a" || key.GetPartitions()[0].GetStandbys()[0].GetOffsetLag() != 10 {
			t.Errorf("key: %v, %v", key, err)
		}
	})
}

func topicPartitions(list []*iqv1.TopicPartition) string {
	var s []string
	for _, tp := range list {
		s = append(s, tp.GetTopic()+"-"+strconv.Itoa(int(tp.GetPartition())))
	}
	return strings.Join(s, ",")
}
