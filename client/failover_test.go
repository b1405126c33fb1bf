package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iqgate/iqgate/client"
	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func stale() error {
	return &iqerr.StaleError{
		Refusals: iqerr.Refusals{Store: "orders", Partition: 3, Candidates: []*iqv1.Candidate{{
			Replica: &iqv1.ReplicaStatus{
				Node: "b", Role: iqv1.Role_ROLE_STANDBY, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, OffsetLag: new(int64(910)),
			},
			Reason: iqv1.Reason_REASON_STALE,
		}}},
		MaxOffsetLag: new(int64(50)),
	}
}

// TestS18OneBadRouterNeverCostsARead: each way in which a router can be bad, with a good one beside it.
func TestS18OneBadRouterNeverCostsARead(t *testing.T) {
	for name, bad := range map[string]*router{
		"refuses connections": nil,
		"unavailable":         fails(status.Error(codes.Unavailable, "gone")),
		"internal":            fails(errors.New("a bug")),
		"resource exhausted":  fails(status.Error(codes.ResourceExhausted, "full")),
		"overloaded":          fails(&iqerr.OverloadedError{Node: "r1", InFlight: 9, Limit: 8}),
		"not ready":           fails(&iqerr.NotReadyError{Node: "r1"}),
		"knows no replica":    fails(&iqerr.NoReplicaError{Refusals: iqerr.Refusals{Store: "orders"}}),
		"not hosted":          fails(&iqerr.NotHostedError{Node: "a", Store: "orders"}),
		"cut off and stale":   fails(stale()),
		"closing":             fails(iqerr.ErrClosing),
		"damaged":             fails(&iqerr.CorruptError{Node: "a", Store: "orders"}),
		"unimplemented":       fails(status.Error(codes.Unimplemented, "old")),
	} {
		t.Run(name, func(t *testing.T) {
			good := answers(value("v"))
			c := newNetwork(t, map[string]*router{"r1": bad, "r2": good}).client(t, "r1 r2")
			r, err := c.Get(t.Context(), "orders", []byte("k"))
			if err != nil || string(r.Value) != "v" {
				t.Fatalf("got %q, %v", r.Value, err)
			}
			if len(r.Attempts) != 1 || r.Attempts[0].GetAddress() != scheme+"r1" || r.Attempts[0].GetMessage() == "" {
				t.Errorf("attempts %v", r.Attempts)
			}
			if bad != nil && bad.asked() != 1 || good.asked() != 1 {
				t.Errorf("asked more than once")
			}
			if _, err := c.Get(t.Context(), "orders", []byte("k")); err != nil {
				t.Fatal(err)
			}
			if bad != nil && bad.asked() != 1 {
				t.Error("the bad router was asked first again")
			}
		})
	}
}

func TestS18RouterThatHangsCostsAtMostItsAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newNetwork(t, map[string]*router{"r1": hangs(), "r2": answers(value("v"))}).client(t, "r1 r2")
		started := time.Now()
		r, err := c.Get(t.Context(), "orders", []byte("k"))
		if took := time.Since(started); err != nil || string(r.Value) != "v" || took != client.DefaultAttemptTimeout {
			t.Errorf("got %q, %v after %v", r.Value, err, took)
		}
		started = time.Now()
		if _, err := c.Get(t.Context(), "orders", []byte("k")); err != nil || time.Since(started) != 0 {
			t.Errorf("the second read took %v: %v", time.Since(started), err)
		}
	})
}

func TestS18AttemptsStayWithinTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newNetwork(t, map[string]*router{"r1": hangs(), "r2": hangs(), "r3": answers(value("v"))}).client(t, "r1 r2 r3")
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		if r, err := c.Get(ctx, "orders", []byte("k")); err != nil || string(r.Value) != "v" {
			t.Errorf("got %q, %v", r.Value, err)
		}
	})
}

// TestWaitIsNotCutShortByFailover: a router that holds a read on the caller's wish is not one that hangs.
func TestWaitIsNotCutShortByFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 8 * time.Second
		patient := &router{get: func(ctx context.Context, _ *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			select {
			case <-time.After(wait):
				return value("late"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		c := newNetwork(t, map[string]*router{"r1": patient, "r2": answers(value("wrong"))}).client(t, "r1 r2")
		if r, err := c.Get(t.Context(), "orders", []byte("k"), client.Wait(wait)); err != nil || string(r.Value) != "late" {
			t.Errorf("got %q, %v", r.Value, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait+time.Millisecond)
		defer cancel()
		if r, err := c.Get(ctx, "orders", []byte("k"), client.Wait(wait)); err != nil || string(r.Value) != "late" {
			t.Errorf("with no time to spare: got %q, %v", r.Value, err)
		}
	})
}

func TestCallWithoutDeadlineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newNetwork(t, map[string]*router{"r1": hangs()}).client(t, "r1", client.WithTimeout(3*time.Second))
		started := time.Now()
		_, err := c.Get(t.Context(), "orders", []byte("k"), client.Wait(time.Second))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(started) != 4*time.Second {
			t.Errorf("got %v after %v", err, time.Since(started))
		}
	})
}

func TestCancelEndsTheCallAndAsksNobodyElse(t *testing.T) {
	second := answers(value("v"))
	ctx, cancel := context.WithCancel(t.Context())
	first := &router{get: func(ctx context.Context, _ *iqv1.GetRequest) (*iqv1.GetResponse, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	c := newNetwork(t, map[string]*router{"r1": first, "r2": second}).client(t, "r1 r2")
	if _, err := c.Get(ctx, "orders", []byte("k")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if second.asked() != 0 {
		t.Error("the second router was asked after the caller had gone")
	}
}

func TestAWrongRequestIsNotAskedTwice(t *testing.T) {
	for _, refusal := range []error{
		&iqerr.StoreUnknownError{Store: "orders", Known: []string{"flights"}},
		iqerr.Invalid("key", nil, "is no int32"),
		&iqerr.PartitionsChangedError{Store: "orders", Want: 3, Have: 6},
	} {
		second := answers(value("v"))
		c := newNetwork(t, map[string]*router{"r1": fails(refusal), "r2": second}).client(t, "r1 r2")
		_, err := c.Get(t.Context(), "orders", []byte("k"))
		if iqerr.ReasonOf(err) != iqerr.ReasonOf(refusal) || err.Error() != refusal.Error() || second.asked() != 0 {
			t.Errorf("got %v, second asked %d times; want %v", err, second.asked(), refusal)
		}
	}
}

func TestTheErrorThatSaysMostComesBackAndNamesAll(t *testing.T) {
	c := newNetwork(t, map[string]*router{"r1": fails(&iqerr.NotReadyError{Node: "r1"}), "r2": fails(stale()), "r3": nil}).client(t, "r1 r2 r3")
	_, err := c.Get(t.Context(), "orders", []byte("k"))
	var s *iqerr.StaleError
	if !errors.As(err, &s) || *s.MaxOffsetLag != 50 || s.Candidates[0].GetReplica().GetOffsetLag() != 910 {
		t.Fatalf("got %v", err)
	}
	var call *client.CallError
	if !errors.As(err, &call) || call.Target != scheme+"r2" || len(call.Attempts) != 3 {
		t.Fatalf("got %#v", err)
	}
	for _, want := range []string{
		"orders/3: no replica within max_offset_lag 50: b (standby, running) is 910 offsets behind",
		"asked passthrough:///r1: Unavailable NOT_READY after ", "asked passthrough:///r3: Unavailable after ", "connection refused",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q\nlacks %q", err, want)
		}
	}
}

func TestARouterThatIsDownIsNamed(t *testing.T) {
	c := newNetwork(t, nil).client(t, "r1")
	_, err := c.Get(t.Context(), "orders", []byte("k"))
	if err == nil || !strings.HasPrefix(err.Error(), "ask passthrough:///r1: ") || !strings.Contains(err.Error(), "connection refused") ||
		strings.Contains(err.Error(), "asked") || status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, code %v", err, status.Code(err))
	}
}

// TestABrokenConnectionToTheOnlyTargetIsTriedOnceMore: a target may be a name with several routers behind it.
func TestABrokenConnectionToTheOnlyTargetIsTriedOnceMore(t *testing.T) {
	r := &router{}
	r.get = func(context.Context, *iqv1.GetRequest) (*iqv1.GetResponse, error) {
		if r.asked() == 1 {
			return nil, status.Error(codes.Unavailable, "connection reset")
		}
		return value("v"), nil
	}
	c := newNetwork(t, map[string]*router{"r1": r}).client(t, "r1")
	if res, err := c.Get(t.Context(), "orders", []byte("k")); err != nil || string(res.Value) != "v" {
		t.Errorf("got %q, %v", res.Value, err)
	}
}

// TestARefusalOfTheOnlyTargetIsNotHammered: STALE tells of a cluster that lags; asking again at once makes it worse.
func TestARefusalOfTheOnlyTargetIsNotHammered(t *testing.T) {
	r := fails(stale())
	c := newNetwork(t, map[string]*router{"r1": r}).client(t, "r1")
	if _, err := c.Get(t.Context(), "orders", []byte("k")); !errors.Is(err, iqerr.ErrStale) || r.asked() != 1 {
		t.Errorf("got %v after %d requests", err, r.asked())
	}
}
