package router

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

func TestS20AddressThatNobodyCanDialIsRefused(t *testing.T) {
	for _, address := range []string{"0.0.0.0:7070", ":7070", "[::]:7070", "", "host", "host:", "host:0", "host:99999", "host:http"} {
		m := &iqv1.HeartbeatRequest{Node: "a", Address: address}
		if _, err := reportFromProto(m); err == nil || !strings.Contains(err.Error(), "address") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestWrongRequestsNameFieldAndValue(t *testing.T) {
	policy := func(p *iqv1.ReadPolicy) *iqv1.GetRequest { return &iqv1.GetRequest{Store: "s", Policy: p} }
	inBubble(t, Config{}, func(w *world) {
		t := w.t
		for field, c := range map[string]struct {
			value   string
			request *iqv1.GetRequest
		}{
			"store":                              {`""`, &iqv1.GetRequest{}},
			"partition":                          {"-3", &iqv1.GetRequest{Store: "s", Partition: new(int32(-3))}},
			"policy.mode":                        {"77", policy(&iqv1.ReadPolicy{Mode: 77})},
			"policy.prefer":                      {"78", policy(&iqv1.ReadPolicy{Prefer: 78})},
			"policy.isolation":                   {"79", policy(&iqv1.ReadPolicy{Isolation: 79})},
			"policy.max_staleness":               {"-1s", policy(&iqv1.ReadPolicy{MaxStaleness: durationpb.New(-time.Second)})},
			"policy.wait":                        {"-2s", policy(&iqv1.ReadPolicy{Wait: durationpb.New(-2 * time.Second)})},
			"policy.max_offset_lag":              {"-4", policy(&iqv1.ReadPolicy{MaxOffsetLag: new(int64(-4))})},
			"policy.at_least.offsets[0].topic":   {`""`, policy(atLeast("", 0, 0))},
			"policy.at_least.offsets[0].offset":  {"-5", policy(atLeast("in", 0, -5))},
			"policy.at_least.offsets[0].partiti": {"-6", policy(atLeast("in", -6, 0))},
		} {
			_, err, _ := w.ask(c.request)
			e, ok := errors.AsType[*iqerr.InvalidError](iqerr.FromStatus(err))
			if !ok || !strings.HasPrefix(e.Field, field) || e.Value != c.value || status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: %v", field, err)
			}
		}
		_, err, _ := w.ask(policy(&iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_BOUNDED}))
		if e, ok := errors.AsType[*iqerr.InvalidError](iqerr.FromStatus(err)); !ok || e.Field != "policy.mode" {
			t.Errorf("bounded without a bound: %v", err)
		}
		_, err, _ = w.ask(policy(&iqv1.ReadPolicy{MaxStaleness: &durationpb.Duration{Seconds: 1, Nanos: -1}}))
		if e, ok := errors.AsType[*iqerr.InvalidError](iqerr.FromStatus(err)); !ok || e.Field != "policy.max_staleness" {
			t.Errorf("no duration: %v", err)
		}
		_, err, _ = w.ask(&iqv1.GetRequest{Partition: new(int32(-3)), Policy: &iqv1.ReadPolicy{Mode: 77}})
		for _, field := range []string{"store", "partition", "policy.mode"} {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("several at once: %v does not name %s", err, field)
			}
		}
		if _, err := w.meta.Explain(t.Context(), &iqv1.ExplainRequest{}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("explain nothing: %v", err)
		}
	})
}

func atLeast(topic string, partition int32, offset int64) *iqv1.ReadPolicy {
	return &iqv1.ReadPolicy{AtLeast: &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: topic, Partition: partition, Offset: offset}}}}
}

func TestDefaultPolicyIsForReadsThatNameNone(t *testing.T) {
	policy, err := routing.ParsePolicy("max_staleness=5s")
	if err != nil {
		t.Fatal(err)
	}
	inBubble(t, Config{DefaultPolicy: policy}, func(w *world) {
		t := w.t
		b := w.join("b", standby(10, 100))
		defer b.kill()
		asked := make(chan *iqv1.GetRequest, 2)
		b.answers(func(_ context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
			asked <- m
			return &iqv1.GetResponse{}, nil
		})
		if _, err, _ := w.ask(&iqv1.GetRequest{Store: "s"}); err != nil {
			t.Fatal(err)
		}
		m := <-asked
		if p := m.GetPolicy(); p.GetMode() != modeAny || p.GetMaxStaleness().AsDuration() != 5*time.Second || m.Partition == nil {
			t.Errorf("the node was asked %v", m)
		}
		if _, err, _ := w.ask(get(modeActive)); !errors.Is(iqerr.FromStatus(err), iqerr.ErrNoActive) {
			t.Errorf("a policy of its own: %v", err)
		}
	})
}

func TestStreamIsOneNodes(t *testing.T) {
	for name, edit := range map[string]func(*iqv1.HeartbeatRequest){
		"another node":        func(m *iqv1.HeartbeatRequest) { m.Node = "z" },
		"another incarnation": func(m *iqv1.HeartbeatRequest) { m.Incarnation = 9 },
		"no node":             func(m *iqv1.HeartbeatRequest) { m.Node = "" },
		"negative position":   func(m *iqv1.HeartbeatRequest) { m.Replicas[0].Position = -1 },
		"no role":             func(m *iqv1.HeartbeatRequest) { m.Replicas[0].Role = 0 },
		"a huge partition":    func(m *iqv1.HeartbeatRequest) { m.Replicas[0].Partition = 1 << 30 },
		"other application":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{}, func(w *world) {
				t := w.t
				a := w.join("a", active(1))
				n := a
				if edit == nil {
					n = w.start("b", "b:7070", 1, standby(1, 1))
					edit = func(m *iqv1.HeartbeatRequest) { m.Application = "other" }
					defer a.kill()
				}
				n.change(edit)
				advance(2 * heartbeatEvery)
				n.mu.Lock()
				err := iqerr.FromStatus(n.refused)
				n.mu.Unlock()
				if !errors.Is(err, iqerr.ErrInvalid) {
					t.Errorf("the node was told %v", err)
				}
				n.kill()
			})
		})
	}
}

// TestGetPassesTimesOn asks for a window, a session and a version: the node must be asked for the same. It was asked for the
// bare key before.
func TestGetPassesTimesOn(t *testing.T) {
	inBubble(t, Config{}, func(w *world) {
		a := w.join("a", active(9))
		for _, m := range []*iqv1.GetRequest{
			{WindowStartMs: new(int64(0))}, {WindowStartMs: new(int64(-5)), SessionEndMs: new(int64(7))}, {AsOfMs: new(int64(9))}, {},
		} {
			m.Store, m.Key = "s", []byte("k0")
			var asked *iqv1.GetRequest
			a.answers(func(_ context.Context, got *iqv1.GetRequest) (*iqv1.GetResponse, error) {
				asked = got
				return &iqv1.GetResponse{}, nil
			})
			if _, err, _ := w.ask(m); err != nil {
				t.Fatal(err)
			}
			asked.Policy, asked.Partition = nil, nil
			if !proto.Equal(asked, m) {
				t.Errorf("the node was asked %v, the router %v", asked, m)
			}
		}
		a.kill()
	})
}
