package query

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// someGet is a request with some of its fields.
func someGet(r *rand.Rand) *iqv1.GetRequest {
	m := &iqv1.GetRequest{Key: make([]byte, r.IntN(40)), Explain: r.IntN(3) == 0}
	maybe := func(set func()) {
		if r.IntN(2) == 0 {
			set()
		}
	}
	maybe(func() { m.Store = "störe" })
	maybe(func() { m.Application = "app" })
	maybe(func() { m.Partition = new(int32(r.IntN(20) - 5)) })
	maybe(func() { m.WindowStartMs = new(r.Int64() - 1<<62) })
	maybe(func() { m.SessionEndMs = new(r.Int64()) })
	maybe(func() { m.AsOfMs = new(int64(0)) })
	maybe(func() {
		m.Policy = &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_Mode(r.IntN(8))}
		maybe(func() { m.Policy.Wait, m.Policy.Rack = durationpb.New(time.Second), "r" })
		maybe(func() { m.Policy.MaxOffsetLag = new(r.Int64()) })
	})
	return m
}

// checkGet compares what was read by hand with what the generated code has read.
func checkGet(t *testing.T, raw []byte, want *iqv1.GetRequest) {
	t.Helper()
	got, err := ParseGet(raw)
	if err != nil {
		t.Fatalf("%x: %v", raw, err)
	}
	back := &iqv1.GetRequest{
		Store: got.Store, Application: got.Application, Key: got.Key, Policy: got.Policy, Explain: got.Explain,
		WindowStartMs: got.WindowStartMs, SessionEndMs: got.SessionEndMs, AsOfMs: got.AsOfMs,
	}
	if got.HasPartition {
		back.Partition = &got.Partition
	}
	known := proto.CloneOf(want)
	known.ProtoReflect().SetUnknown(nil)
	if !proto.Equal(back, known) {
		t.Fatalf("%x: got %v, want %v", raw, back, known)
	}
	policy := &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_STRONG, MaxOffsetLag: new(int64(7))}
	forward, err := got.Forward(policy)
	if err != nil {
		t.Fatal(err)
	}
	sent := &iqv1.GetRequest{}
	if err := proto.Unmarshal(ForPartition(forward, 3), sent); err != nil {
		t.Fatal(err)
	}
	wantSent := proto.CloneOf(want)
	wantSent.Policy, wantSent.Partition, wantSent.Explain = policy, new(int32(3)), false
	if !proto.Equal(sent, wantSent) {
		t.Fatalf("%x: forwarded %v, want %v", raw, sent, wantSent)
	}
}

func TestGetReadByHandIsWhatTheGeneratedCodeReads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		want := someGet(r)
		raw, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) == 0 { // of a later version
			raw = protowire.AppendBytes(protowire.AppendTag(raw, 99, protowire.BytesType), []byte("new"))
			raw = protowire.AppendFixed64(protowire.AppendTag(raw, 98, protowire.Fixed64Type), 5)
		}
		if r.IntN(3) == 0 { // a message that is there in two parts
			more, err := proto.Marshal(someGet(r))
			if err != nil {
				t.Fatal(err)
			}
			raw = append(raw, more...)
		}
		want = &iqv1.GetRequest{}
		if err := proto.Unmarshal(raw, want); err != nil {
			t.Fatal(err)
		}
		checkGet(t, raw, want)
	}
}

// TestSharedPoliciesStayAsTheyAre: requests share those that say no more than a mode.
func TestSharedPoliciesStayAsTheyAre(t *testing.T) {
	for mode := range iqv1.ReadPolicy_Mode_name {
		raw, err := proto.Marshal(&iqv1.GetRequest{Policy: &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_Mode(mode)}})
		if err != nil {
			t.Fatal(err)
		}
		g, err := ParseGet(raw)
		if err != nil || g.Policy == nil || int32(g.Policy.GetMode()) != mode {
			t.Errorf("mode %d: %v, %v", mode, g.Policy, err)
		}
	}
}

func TestGetThatIsNoneIsInvalid(t *testing.T) {
	for name, raw := range map[string][]byte{
		"cut off":          {0x0a, 5, 'a'},
		"no field":         {0x07},
		"store not UTF-8":  {0x0a, 1, 0xff},
		"app not UTF-8":    {0x2a, 1, 0xff},
		"policy cut off":   {0x1a, 1, 0x08},
		"policy not UTF-8": {0x1a, 3, 0x32, 1, 0xff},
	} {
		if proto.Unmarshal(raw, &iqv1.GetRequest{}) == nil {
			t.Errorf("%s: the generated code takes it", name)
		}
		if _, err := ParseGet(raw); !errors.Is(err, iqerr.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParseGet: a request comes from anybody. What the generated code takes is read alike, and what it refuses is refused.
func FuzzParseGet(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		raw, err := proto.Marshal(someGet(r))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want := &iqv1.GetRequest{}
		if proto.Unmarshal(raw, want) != nil {
			_, _ = ParseGet(raw)
			return
		}
		checkGet(t, raw, want)
	})
}

func TestGetReplyReadByHandIsWhatTheGeneratedCodeReads(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 5000 {
		m := &iqv1.GetResponse{Found: r.IntN(2) == 0, Value: make([]byte, r.IntN(40)), TimestampMs: r.Int64()}
		if r.IntN(4) > 0 {
			m.Served = &iqv1.ReplicaStatus{
				Node: "a", Role: iqv1.Role(r.IntN(4)), EndPosition: r.Int64() - 1<<62, LeaseValid: r.IntN(2) == 0,
			}
			if r.IntN(2) == 0 {
				m.Served.TimeLag = durationpb.New(time.Duration(r.Int64N(1 << 50)))
			}
			if r.IntN(2) == 0 {
				m.Served.OffsetLag = new(int64(r.IntN(2)))
			}
		}
		raw, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseGetReply(raw)
		s := m.GetServed()
		want := GetReply{
			Bytes: raw, Found: m.GetFound(), Served: s != nil, End: s.GetEndPosition(), HasLag: s != nil && s.OffsetLag != nil,
			Serves: s.GetRole() == iqv1.Role_ROLE_ACTIVE && s.GetLeaseValid(), Role: metadata.Role(s.GetRole()),
			OffsetLag: metadata.LagUnknown, TimeLag: metadata.LagUnknown,
		}
		if want.HasLag {
			want.OffsetLag = s.GetOffsetLag()
		}
		if s.GetTimeLag() != nil {
			want.TimeLag = s.GetTimeLag().AsDuration()
		}
		if err != nil || !bytes.Equal(got.Bytes, want.Bytes) {
			t.Fatalf("%v: %v", m, err)
		}
		got.Bytes, want.Bytes = nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: got %+v, want %+v", m, got, want)
		}
	}
}

// TestGetAllocs holds what a read costs to read and forward: the store's name, and the bytes that go to the node.
func TestGetAllocs(t *testing.T) {
	raw, err := proto.Marshal(&iqv1.GetRequest{Store: "counts", Key: []byte("key-0000001"), Policy: &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ACTIVE}})
	if err != nil {
		t.Fatal(err)
	}
	if got := testing.AllocsPerRun(1000, func() {
		if _, err := ParseGet(raw); err != nil {
			t.Fatal(err)
		}
	}); got > 1 {
		t.Errorf("%v allocations to read a request, ceiling 1", got)
	}
	policy := &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_MODE_ACTIVE}
	if got := testing.AllocsPerRun(1000, func() {
		g, err := ParseGet(raw)
		if err != nil {
			t.Fatal(err)
		}
		forward, err := g.Forward(policy)
		if err != nil {
			t.Fatal(err)
		}
		ForPartition(forward, 7)
	}); got > 3 {
		t.Errorf("%v allocations to forward a request, ceiling 3", got)
	}
}
