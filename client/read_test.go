package client_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func TestEachReadOptionReachesTheServer(t *testing.T) {
	pos := &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "orders", Partition: 2, Offset: 7}}}
	for _, c := range []struct {
		name     string
		defaults []client.ReadOption
		opts     []client.ReadOption
		want     string
	}{
		{name: "none leaves the policy to the server"},
		{name: "strong", opts: o(client.Strong()), want: `policy:{mode:MODE_STRONG}`},
		{name: "active", opts: o(client.Active()), want: `policy:{mode:MODE_ACTIVE}`},
		{name: "any", opts: o(client.Any()), want: `policy:{mode:MODE_ANY}`},
		{name: "staleness", opts: o(client.MaxStaleness(10 * time.Second)), want: `policy:{mode:MODE_BOUNDED max_staleness:{seconds:10}}`},
		{name: "no staleness at all is a bound too", opts: o(client.MaxStaleness(0)), want: `policy:{mode:MODE_BOUNDED max_staleness:{}}`},
		{name: "no lag at all is a bound too", opts: o(client.MaxOffsetLag(0)), want: `policy:{mode:MODE_BOUNDED max_offset_lag:0}`},
		{
			name: "both bounds", opts: o(client.MaxOffsetLag(100), client.MaxStaleness(time.Millisecond)),
			want: `policy:{mode:MODE_BOUNDED max_staleness:{nanos:1000000} max_offset_lag:100}`,
		},
		{
			name: "a bound holds beside a mode, whichever comes first", opts: o(client.MaxStaleness(time.Second), client.Any(), client.MaxOffsetLag(1)),
			want: `policy:{mode:MODE_ANY max_staleness:{seconds:1} max_offset_lag:1}`,
		},
		{name: "at least", opts: o(client.AtLeast(pos)), want: `policy:{at_least:{offsets:{topic:"orders" partition:2 offset:7}}}`},
		{name: "prefer active", opts: o(client.PreferActive()), want: `policy:{prefer:PREFER_ACTIVE}`},
		{name: "least loaded", opts: o(client.LeastLoaded()), want: `policy:{prefer:PREFER_LEAST_LOADED}`},
		{name: "nearest", opts: o(client.Any(), client.Nearest("x")), want: `policy:{mode:MODE_ANY prefer:PREFER_NEAREST rack:"x"}`},
		{name: "wait", opts: o(client.Wait(2 * time.Second)), want: `policy:{wait:{seconds:2}}`},
		{name: "uncommitted", opts: o(client.ReadUncommitted()), want: `policy:{isolation:ISOLATION_READ_UNCOMMITTED}`},
		{name: "partition 0 is not absent", opts: o(client.Partition(0)), want: `partition:0`},
		{name: "explain", opts: o(client.Explain()), want: `explain:true`},
		{name: "default policy", defaults: o(client.Any(), client.Wait(time.Second)), want: `policy:{mode:MODE_ANY wait:{seconds:1}}`},
		{
			name: "a call's policy replaces the default one and keeps the rest", defaults: o(client.MaxStaleness(time.Second), client.Wait(time.Second)),
			opts: o(client.Strong()), want: `policy:{mode:MODE_STRONG wait:{seconds:1}}`,
		},
		{
			name: "a call's bound replaces the default one", defaults: o(client.MaxStaleness(time.Second)),
			opts: o(client.MaxOffsetLag(5)), want: `policy:{mode:MODE_BOUNDED max_offset_lag:5}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := answers(value("v"))
			cl := newNetwork(t, map[string]*router{"r1": r}).client(t, "r1", client.WithReadOptions(c.defaults...), client.WithApplication("app"))
			if _, err := cl.Get(t.Context(), "orders", []byte("k"), c.opts...); err != nil {
				t.Fatal(err)
			}
			want := &iqv1.GetRequest{}
			if err := prototext.Unmarshal([]byte(`store:"orders" key:"k" application:"app" `+c.want), want); err != nil {
				t.Fatal(err)
			}
			if got := r.last(); !proto.Equal(got, want) {
				t.Errorf("sent %v\nwant %v", got, want)
			}
		})
	}
}

func o(opts ...client.ReadOption) []client.ReadOption { return opts }

func TestBadReadOptionsNameFieldAndValueAndReachNobody(t *testing.T) {
	r := answers(value("v"))
	c := newNetwork(t, map[string]*router{"r1": r}).client(t, "r1")
	for _, x := range []struct {
		opts []client.ReadOption
		want string
	}{
		{o(client.MaxStaleness(-time.Second)), "policy.max_staleness -1s: must not be negative"},
		{o(client.MaxOffsetLag(-1)), "policy.max_offset_lag -1: must not be negative"},
		{o(client.Wait(-time.Minute)), "policy.wait -1m0s: must not be negative"},
		{o(client.Partition(-1)), "partition -1: must not be negative"},
		{o(client.Strong(), client.Any()), "policy.mode MODE_ANY: contradicts MODE_STRONG"},
		{o(client.Wait(-1), client.Partition(-2)), "partition -2: must not be negative"},
	} {
		_, err := c.Get(t.Context(), "orders", nil, x.opts...)
		if !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("got %v, want %s", err, x.want)
		}
		if _, err := c.Explain(t.Context(), "orders", nil, x.opts...); !errors.Is(err, iqerr.ErrInvalid) {
			t.Errorf("Explain: got %v, want %s", err, x.want)
		}
	}
	if _, err := c.Get(t.Context(), "", []byte("k")); !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), `store ""`) {
		t.Errorf("no store: got %v", err)
	}
	if r.asked() != 0 {
		t.Errorf("%d bad requests were sent", r.asked())
	}
}

func TestResultHasEveryFactOfTheReply(t *testing.T) {
	in := &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "orders", Offset: 9}}}
	res := &iqv1.GetResponse{
		Found: true, Value: []byte("v"), TimestampMs: 1700000040000, InputPosition: in,
		Served: &iqv1.ReplicaStatus{
			Node: "b", Address: "10.0.0.2:7001", Partition: 3, Role: iqv1.Role_ROLE_STANDBY, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING,
			Generation: 4, Position: 90, EndPosition: 90, OffsetLag: new(int64(0)), TimeLag: durationpb.New(84 * time.Millisecond),
		},
		Attempts: []*iqv1.Attempt{{Node: "a"}}, Decision: &iqv1.Decision{Store: "orders"},
	}
	c := newNetwork(t, map[string]*router{"r1": answers(res)}).client(t, "r1")
	r, err := c.Get(t.Context(), "orders", []byte("k"))
	if err != nil {
		t.Fatal(err)
	}
	if !r.Found || string(r.Value) != "v" || !r.Timestamp.Equal(time.UnixMilli(1700000040000)) || r.Node != "b" || r.Address != "10.0.0.2:7001" ||
		r.Role != iqv1.Role_ROLE_STANDBY || r.State != iqv1.ReplicaState_REPLICA_STATE_RUNNING || r.Generation != 4 || r.Partition != 3 ||
		r.OffsetLag != 0 || r.TimeLag != 84*time.Millisecond || r.Position != 90 || !proto.Equal(r.InputPosition, in) ||
		len(r.Attempts) != 1 || r.Attempts[0].GetNode() != "a" || r.Decision.GetStore() != "orders" {
		t.Errorf("got %+v", r)
	}
	if got, want := r.ServedBy(), "served by b (standby, running), 0 offsets / 84ms behind, partition 3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestS18AbsentKeyIsAnAnswerAndIsNotRetried: an empty reply is a miss, told apart from an empty value.
func TestS18AbsentKeyIsAnAnswerAndIsNotRetried(t *testing.T) {
	second := answers(value("v"))
	c := newNetwork(t, map[string]*router{"r1": answers(&iqv1.GetResponse{}), "r2": second}).client(t, "r1 r2")
	r, err := c.Get(t.Context(), "orders", []byte("k"))
	if err != nil || r.Found || r.Value != nil || !r.Timestamp.IsZero() || second.asked() != 0 {
		t.Errorf("got %+v, %v, second asked %d times", r, err, second.asked())
	}
	if r.OffsetLag != math.MaxInt64 || r.TimeLag != math.MaxInt64 || !strings.Contains(r.ServedBy(), "lag not known") {
		t.Errorf("a lag that was not told is %d, %v: %s", r.OffsetLag, r.TimeLag, r.ServedBy())
	}
}

func TestEmptyValueIsFound(t *testing.T) {
	c := newNetwork(t, map[string]*router{"r1": answers(&iqv1.GetResponse{Found: true})}).client(t, "r1")
	if r, err := c.Get(t.Context(), "orders", []byte{}); err != nil || !r.Found || r.Value == nil || len(r.Value) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestS31ValuesOverGRPCsDefaultLimitAreRead(t *testing.T) {
	for _, size := range []int{4194304 - 100, 4561623, 20 << 20} {
		big := strings.Repeat("x", size)
		c := newNetwork(t, map[string]*router{"r1": answers(value(big))}).client(t, "r1")
		if r, err := c.Get(t.Context(), "orders", []byte("k")); err != nil || string(r.Value) != big {
			t.Errorf("%d bytes: got %d, %v", size, len(r.Value), err)
		}
	}
}

func TestBadTargetsAndOptionsAreRefusedWithTheirName(t *testing.T) {
	for _, x := range []struct {
		targets []string
		opt     client.Option
		want    string
	}{
		{nil, nil, "targets: at least one"},
		{make([]string, client.MaxTargets+1), nil, "targets 65: at most 64"},
		{[]string{"r1:7000", ""}, nil, `targets "": must be host:port`},
		{[]string{"r1:7000"}, client.WithTimeout(0), "timeout 0s: must be positive"},
		{[]string{"r1:7000"}, client.WithAttemptTimeout(-time.Second), "attempt timeout -1s: must be positive"},
	} {
		opts := []client.Option{}
		if x.opt != nil {
			opts = append(opts, x.opt)
		}
		c, err := client.New(x.targets, opts...)
		if c != nil || !errors.Is(err, iqerr.ErrInvalid) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("got %v, want %s", err, x.want)
		}
	}
}
