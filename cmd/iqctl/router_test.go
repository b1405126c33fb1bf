package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/router"
)

// TestS19EachCauseOfAFailedReadReadsDifferently runs the real router: each cause alone, and what a person is told. "All
// nodes are dead or exceed the lag" for all of them sent people looking in the wrong place.
func TestS19EachCauseOfAFailedReadReadsDifferently(t *testing.T) {
	standby := &iqv1.ReplicaStatus{
		Store: "s", Role: iqv1.Role_ROLE_STANDBY, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, Generation: 1,
		Position: 500, EndPosition: 1000, OffsetLag: new(int64(500)), TimeLag: durationpb.New(3 * time.Second), SampleAge: durationpb.New(0),
	}
	restoring := &iqv1.ReplicaStatus{
		Store: "s", Role: iqv1.Role_ROLE_ACTIVE, State: iqv1.ReplicaState_REPLICA_STATE_RESTORING, Generation: 1, LeaseValid: true,
		Position: 90, EndPosition: 1000, OffsetLag: new(int64(910)), SampleAge: durationpb.New(0),
	}
	seen := map[string]string{}
	for _, c := range []struct {
		name    string
		replica *iqv1.ReplicaStatus
		silent  time.Duration // how long the node has said nothing when the read comes
		args    string
		code    int
		want    []string
	}{
		{name: "no node has reported", args: "get s k", code: exitUnavailable, want: []string{"not ready"}},
		{
			name: "no live host", replica: standby, silent: 5 * time.Second, args: "get s k --policy any", code: exitUnavailable,
			want: []string{"NO_REPLICA: s/0: no replica is alive", "  b (standby, suspended): its node is dead: silent for 5s\n"},
		},
		{
			name: "too far behind", replica: standby, args: "get s k --policy max_offset_lag=100", code: exitStale,
			want: []string{"STALE: s/0: no replica within max_offset_lag 100", "b (standby, running): 500 offsets behind, more than 100"},
		},
		{
			name: "partition unassigned", replica: standby, args: "get s k --policy any --partition 1", code: exitUnavailable,
			want: []string{"not ready", "partition s/1 is not assigned to any node yet"},
		},
		{
			name: "store unknown", replica: standby, args: "get other k", code: exitError,
			want: []string{`store "other" is unknown; known are s`},
		},
		{
			name: "active restoring", replica: restoring, args: "get s k --policy active", code: exitUnavailable,
			want: []string{"NO_ACTIVE: s/0", "b (active, restoring) is 910 offsets behind: the active is restoring: position 90 of 1000"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listeners, stop := startRouter(t)
				defer stop()
				if c.replica != nil {
					defer report(t, listeners, c.replica, c.silent > 0)()
				}
				time.Sleep(c.silent)
				stdout, stderr, code := execute(t, append(strings.Fields(c.args), "--router", "passthrough:///router"), nil, listeners)
				if code != c.code || stdout != "" {
					t.Errorf("exit %d, want %d\n%s%s", code, c.code, stdout, stderr)
				}
				for _, want := range c.want {
					if !strings.Contains(stderr, want) {
						t.Errorf("%q\nlacks %q", stderr, want)
					}
				}
				if other, dup := seen[stderr]; dup {
					t.Errorf("%q reads like %q: %s", c.name, other, stderr)
				}
				seen[stderr] = c.name
			})
		})
	}
}

// TestEveryQuestionIsAnsweredByTheRealRouter: the golden tests have a router of their own; this one keeps them honest.
func TestEveryQuestionIsAnsweredByTheRealRouter(t *testing.T) {
	replica := &iqv1.ReplicaStatus{
		Store: "s", Role: iqv1.Role_ROLE_STANDBY, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, Generation: 1,
		Position: 988, EndPosition: 1000, OffsetLag: new(int64(12)), TimeLag: durationpb.New(84 * time.Millisecond), SampleAge: durationpb.New(0),
	}
	synctest.Test(t, func(t *testing.T) {
		listeners, stop := startRouter(t)
		defer stop()
		defer report(t, listeners, replica, false)()
		for _, c := range []struct {
			args string
			want []string
		}{
			{"get s k --policy any --explain", []string{"from b\n", "served by b (standby, running), 12 offsets / 84ms behind, partition 0", "RANK", "within the policy"}},
			{"explain s k --policy max_offset_lag=5", []string{"s/0, key k, policy max_offset_lag=5", "12 offsets behind, more than 5", "refused: STALE"}},
			{"status", []string{"b     b:7001", "alive", "12 offsets / ", "1 node: 1 alive"}},
			{"lag --store s", []string{"s      0          b     standby  running  988       1000  12"}},
			{"metadata stores", []string{"s      2           keyvalue  string  string  murmur2"}},
			{"metadata instances", []string{"b     b:7001", "s 0"}},
			{"metadata key s k", []string{"(nobody)", "standby"}},
		} {
			stdout, stderr, code := execute(t, append(strings.Fields(c.args), "--router", "passthrough:///router"), nil, listeners)
			if code != exitOK || stderr != "" {
				t.Errorf("%s: exit %d: %s", c.args, code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("%s\n%s\nlacks %q", c.args, stdout, want)
				}
			}
		}
	})
}

// TestWaitOutlastsTheStartOfTheRouter: a router that has just started knows no store, and so not how KEY is written.
func TestWaitOutlastsTheStartOfTheRouter(t *testing.T) {
	replica := &iqv1.ReplicaStatus{
		Store: "s", Role: iqv1.Role_ROLE_STANDBY, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, Generation: 1,
		Position: 988, EndPosition: 1000, OffsetLag: new(int64(12)), SampleAge: durationpb.New(0),
	}
	for _, c := range []struct {
		args string
		code int
		want string        // the output has it
		took time.Duration // at least, and less than 2 readyPause more
	}{
		{"get s k --policy any --wait 2s", exitOK, "from b\n", time.Second},
		{"get s k --policy any --wait 2s --key-format string --value-format string", exitOK, "from b\n", time.Second},
		{"explain s k --policy any --wait 2s", exitOK, "within the policy", time.Second},
		{"explain s k --policy any --wait 2s --key-format string", exitOK, "within the policy", time.Second},
		{"get other k --wait 2s", exitError, "unknown", time.Second},
		{"get s k --policy any --wait 500ms", exitUnavailable, "not ready", 500 * time.Millisecond},
		{"get s k --policy any", exitUnavailable, "not ready", 0},
		{"explain s k --policy any --wait 500ms", exitUnavailable, "not ready", 500 * time.Millisecond},
		{"explain s k --policy any", exitUnavailable, "not ready", 0},
	} {
		t.Run(c.args, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listeners, stop := startRouter(t)
				defer stop()
				var reports sync.WaitGroup
				over := make(chan struct{})
				reports.Go(func() {
					time.Sleep(time.Second)
					defer report(t, listeners, replica, false)()
					<-over
				})
				start := time.Now()
				stdout, stderr, code := execute(t, append(strings.Fields(c.args), "--router", "passthrough:///router"), nil, listeners)
				took := time.Since(start)
				close(over)
				reports.Wait()
				if code != c.code || !strings.Contains(stdout+stderr, c.want) || took < c.took || took >= c.took+2*readyPause {
					t.Errorf("exit %d after %s\n%s%s", code, took, stdout, stderr)
				}
			})
		})
	}
}

// startRouter starts a real router on a network in memory.
func startRouter(t *testing.T) (listeners map[string]*bufconn.Listener, stop func()) {
	t.Helper()
	listeners = map[string]*bufconn.Listener{"router": bufconn.Listen(1 << 16), "b:7001": bufconn.Listen(1 << 16)}
	r, err := router.New(router.Config{
		Name: "router", Listener: listeners["router"], Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			if l, ok := listeners[address]; ok {
				return l.DialContext(ctx)
			}
			return nil, fmt.Errorf("dial %s: connection refused", address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return listeners, func() { cancel(); wg.Wait() }
}

// nodeB is a node that answers every read with "from b" and its one replica.
type nodeB struct {
	iqv1.UnimplementedQueryServiceServer
	replica *iqv1.ReplicaStatus
}

func (n *nodeB) Get(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	return &iqv1.GetResponse{Found: true, Value: []byte("from b"), Served: n.replica}, nil
}

// report makes node b known to the router, with one replica of store s, which has two partitions. It reports every 100 ms,
// or only once. It has been heard when report returns.
func report(t *testing.T, listeners map[string]*bufconn.Listener, replica *iqv1.ReplicaStatus, once bool) (stop func()) {
	t.Helper()
	var wg sync.WaitGroup
	served := proto.CloneOf(replica)
	served.Node, served.Address = "b", "b:7001"
	s := grpc.NewServer()
	iqv1.RegisterQueryServiceServer(s, &nodeB{replica: served})
	wg.Go(func() { _ = s.Serve(listeners["b:7001"]) })
	conn, err := grpc.NewClient("passthrough:///router", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) { return listeners[name].DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := iqv1.NewControlServiceClient(conn).Heartbeat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const every = 100 * time.Millisecond
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for sequence := int64(1); ; sequence++ {
			if !once || sequence == 1 {
				if err := stream.Send(&iqv1.HeartbeatRequest{
					Node: "b", Incarnation: 1, Sequence: sequence, Application: "app", Address: "b:7001", Generation: 1, Full: true,
					Interval: durationpb.New(every), Replicas: []*iqv1.ReplicaStatus{replica},
					Stores: []*iqv1.StoreInfo{{
						Name: "s", Partitions: 2, ActualPartitions: 2, Kind: "keyvalue", KeySerde: "string", ValueSerde: "string", Partitioner: "murmur2",
						Changelog: "app-s-changelog", SourceTopics: []string{"in"},
					}},
				}); err != nil {
					return
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	synctest.Wait()
	return func() {
		cancel()
		_ = conn.Close()
		s.Stop()
		wg.Wait()
	}
}
