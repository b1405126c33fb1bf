package mux

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

var forceCodec = grpc.ForceCodecV2(Codec{})

// randomGet is a GetRequest with some of its fields.
func randomGet(r *rand.Rand) *iqv1.GetRequest {
	m := &iqv1.GetRequest{Store: string(rune('a' + r.IntN(26))), Key: make([]byte, r.IntN(300))}
	if r.IntN(2) == 0 {
		m.Policy = &iqv1.ReadPolicy{Mode: iqv1.ReadPolicy_Mode(r.IntN(5)), Rack: "r"}
	}
	if r.IntN(2) == 0 {
		m.AsOfMs = new(r.Int64())
	}
	return m
}

// TestWhatIsWrittenByHandIsWhatTheGeneratedCodeReads: and the other way round.
func TestWhatIsWrittenByHandIsWhatTheGeneratedCodeReads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		want := &iqv1.LookupsRequest{}
		var b []byte
		for range r.IntN(5) {
			l := &iqv1.Lookup{Id: r.Uint32() >> r.IntN(32), Get: randomGet(r)}
			if r.IntN(2) == 0 {
				l.TimeoutUs = 1 + r.Uint64()>>(20+r.IntN(40))
			}
			raw, err := proto.Marshal(l.GetGet())
			if err != nil {
				t.Fatal(err)
			}
			b = appendAsking(b, l.GetId(), time.Duration(l.GetTimeoutUs())*time.Microsecond, raw)
			want.Lookups = append(want.Lookups, l)
			if r.IntN(4) == 0 {
				b = appendCancel(b, l.GetId())
				want.Lookups = append(want.Lookups, &iqv1.Lookup{Id: l.GetId(), Cancel: true})
			}
		}
		got := &iqv1.LookupsRequest{}
		if err := proto.Unmarshal(b, got); err != nil || !proto.Equal(got, want) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
		generated, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		checkAskings(t, generated, want)
	}
}

// checkAskings reads a message by hand and wants what the generated code has read from it.
func checkAskings(t *testing.T, message []byte, want *iqv1.LookupsRequest) {
	t.Helper()
	i := 0
	err := walk(message, func(item []byte) error {
		a, err := parseAsking(item)
		if err != nil {
			return err
		}
		w := want.GetLookups()[i]
		i++
		get := &iqv1.GetRequest{}
		if err := proto.Unmarshal(a.request, get); err != nil {
			return err
		}
		wantGet := w.GetGet()
		if wantGet == nil {
			wantGet = &iqv1.GetRequest{}
		}
		if a.id != w.GetId() || a.cancel != w.GetCancel() || a.timeout != timeoutOf(w.GetTimeoutUs()) || !proto.Equal(get, wantGet) {
			t.Fatalf("got %+v, want %v", a, w)
		}
		return nil
	})
	if err != nil || i != len(want.GetLookups()) {
		t.Fatalf("%d of %d items, %v", i, len(want.GetLookups()), err)
	}
}

func TestAnswersWrittenByHandAreWhatTheGeneratedCodeReads(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		want := &iqv1.LookupsResponse{}
		var b []byte
		for range r.IntN(6) {
			a := &iqv1.LookupAnswer{Id: r.Uint32() >> r.IntN(32)}
			switch r.IntN(3) {
			case 0:
				a.Get = &iqv1.GetResponse{Found: true, Value: make([]byte, r.IntN(300)), TimestampMs: r.Int64()}
				raw, err := proto.Marshal(a.GetGet())
				if err != nil {
					t.Fatal(err)
				}
				b = appendReply(b, a.GetId(), raw)
			case 1:
				a.Error = &iqv1.LookupError{Code: int32(codes.NotFound), Message: "no such store"}
				b = appendError(b, a.GetId(), &spb.Status{Code: int32(codes.NotFound), Message: "no such store"})
			case 2:
				a.TooLarge = true
				b = appendTooLarge(b, a.GetId())
			}
			want.Answers = append(want.Answers, a)
		}
		got := &iqv1.LookupsResponse{}
		if err := proto.Unmarshal(b, got); err != nil || !proto.Equal(got, want) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
		i := 0
		err := walk(b, func(item []byte) error {
			a, err := parseAnswer(item)
			w := want.GetAnswers()[i]
			i++
			if a.id != w.GetId() || a.tooLarge != w.GetTooLarge() || a.status.GetCode() != w.GetError().GetCode() || a.status.GetMessage() != w.GetError().GetMessage() {
				t.Fatalf("got %+v, want %v", a, w)
			}
			raw, marshalErr := proto.Marshal(w.GetGet())
			if marshalErr != nil || !bytes.Equal(a.reply, raw) {
				t.Fatalf("reply %x, want %x", a.reply, raw)
			}
			return err
		})
		if err != nil || i != len(want.GetAnswers()) {
			t.Fatalf("%d of %d, %v", i, len(want.GetAnswers()), err)
		}
	}
}

func TestErrorTextThatIsNotUTF8StillCrosses(t *testing.T) {
	b := appendError(nil, 3, &spb.Status{Code: int32(codes.Internal), Message: "\xff"})
	m := &iqv1.LookupsResponse{}
	if err := proto.Unmarshal(b, m); err != nil || m.GetAnswers()[0].GetError().GetCode() != int32(codes.Internal) {
		t.Errorf("got %v, %v", m, err)
	}
}

// FuzzWalkReadsWhatTheGeneratedCodeReads: a message comes from another process, perhaps of another version or damaged. Where the
// generated code reads it, so does the walk, and the same; but for a message that is there twice, which it refuses.
func FuzzWalkReadsWhatTheGeneratedCodeReads(f *testing.F) {
	f.Add(appendCancel(appendAsking(nil, 1, time.Second, []byte{0x0a, 1, 's'}), 1))
	f.Add([]byte{0x0a, 2, 0x18, 1, 0x10, 5})
	f.Fuzz(func(t *testing.T, b []byte) {
		want := &iqv1.LookupsRequest{}
		if proto.Unmarshal(b, want) != nil {
			_ = walk(b, func(item []byte) error { _, err := parseAsking(item); return err })
			return
		}
		twice := false
		_ = walk(b, func(item []byte) error {
			_, err := parseAsking(item)
			twice = twice || err != nil
			return nil
		})
		if !twice {
			checkAskings(t, b, want)
		}
	})
}
