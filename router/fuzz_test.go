package router

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
	"github.com/iqgate/iqgate/routing"
)

// FuzzReportsChangeTheViewOrAreRefused gives any bytes as the reports of two nodes. Each is refused, or gives a view that can be
// decided by; the view before it stays as it was.
func FuzzReportsChangeTheViewOrAreRefused(f *testing.F) {
	seed := func(ms ...*iqv1.HeartbeatRequest) {
		var all [2][]byte
		for i, m := range ms {
			b, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			all[i] = b
		}
		f.Add(all[0], all[1])
	}
	full := &iqv1.HeartbeatRequest{
		Node: "a", Incarnation: 1, Sequence: 1, Application: "app", Address: "h:1", Generation: 3, Full: true, Interval: durationpb.New(time.Second),
		Replicas: []*iqv1.ReplicaStatus{{Store: "s", Partition: 1, Role: iqv1.Role_ROLE_ACTIVE, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING, Position: 5, EndPosition: 9, LeaseValid: true}},
		Stores:   []*iqv1.StoreInfo{{Name: "s", Partitions: 3, Partitioner: "murmur2", Kind: "keyvalue"}},
		Inputs:   []*iqv1.ReplicaInput{{Store: "s", Partition: 1}},
		Hosts:    &iqv1.HostMap{Generation: 3, Hosts: []*iqv1.Host{{Node: "a", Address: "h:1", Active: []*iqv1.StorePartition{{Store: "s", Partition: 1}}}}},
	}
	partial := proto.Clone(full).(*iqv1.HeartbeatRequest) //nolint:forcetypeassert // a clone
	partial.Full, partial.Sequence, partial.Stores, partial.Hosts = false, 2, nil, nil
	seed(full, partial)
	other := proto.Clone(full).(*iqv1.HeartbeatRequest) //nolint:forcetypeassert // a clone
	other.Node, other.Stores[0].Partitions = "b", -7
	seed(full, other)
	seed(&iqv1.HeartbeatRequest{Node: "a", Leaving: true}, &iqv1.HeartbeatRequest{Node: "a", Interval: &durationpb.Duration{Seconds: 1 << 60, Nanos: -5}})
	begin := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, one, two []byte) {
		v := metadata.NewView(metadata.Limits{})
		for i, data := range [][]byte{one, two} {
			var m iqv1.HeartbeatRequest
			if proto.Unmarshal(data, &m) != nil {
				return
			}
			r, err := reportFromProto(&m)
			if err != nil {
				if !errors.Is(err, iqerr.ErrInvalid) {
					t.Fatalf("%v: %v", &m, err)
				}
				continue
			}
			now := begin.Add(time.Duration(i) * time.Second)
			if next, err := v.Apply(r, now); err == nil {
				v = next
			}
			for _, p := range r.Replicas {
				for _, policy := range []string{"strong", "any", "max_offset_lag=3"} {
					pol, err := routing.ParsePolicy(policy)
					if err != nil {
						t.Fatal(err)
					}
					d, err := routing.Decide(v, routing.Query{Partition: p.Partition, Policy: pol}, now)
					if err == nil && len(d.Candidates) == 0 {
						t.Fatalf("%v: a decision without candidates", &m)
					}
				}
			}
		}
	})
}

// FuzzReadIsCheckedOrRefused gives any bytes as the request of one key.
func FuzzReadIsCheckedOrRefused(f *testing.F) {
	for _, m := range []*iqv1.GetRequest{
		{Store: "s", Key: []byte("k")},
		{Store: "s", Partition: new(int32(-1)), Policy: &iqv1.ReadPolicy{Mode: 99, Wait: &durationpb.Duration{Seconds: 1 << 60, Nanos: -1}}},
		{Application: "other", Policy: &iqv1.ReadPolicy{MaxStaleness: durationpb.New(-1), MaxOffsetLag: new(int64(-1)), Isolation: 7}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m iqv1.GetRequest
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		r, err := readFromProto(&m, routing.Unbounded(routing.ModeActive), "app")
		if err != nil {
			if iqerr.ReasonOf(err) != iqv1.Reason_REASON_INVALID {
				t.Fatalf("%v: %v", &m, err)
			}
			return
		}
		if r.wait < 0 || m.GetStore() == "" || r.partition < routing.NoPartition {
			t.Fatalf("%v is taken as %+v", &m, r)
		}
		if err := r.policy.Validate(); err != nil {
			t.Fatalf("%v: policy %s: %v", &m, r.policy, err)
		}
	})
}
