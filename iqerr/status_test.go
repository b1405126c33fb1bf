package iqerr

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func TestUnknownErrorIsInternalAndLeaksNothing(t *testing.T) {
	err := Status(fmt.Errorf("open /var/lib/iqnode/orders: %w", errors.New("password hunter2")))
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "/var") {
		t.Errorf("got %v", err)
	}
	if ReasonOf(err) != iqv1.Reason_REASON_UNSPECIFIED {
		t.Errorf("reason %v", ReasonOf(err))
	}
	if !Retriable(err) {
		t.Error("one server's bug must not cost a read that another can answer")
	}
}

func TestTextThatWrapsAFactStaysOnTheServer(t *testing.T) {
	err := Status(fmt.Errorf("open /var/lib/iqnode/orders: %w", &ClosingError{Node: "a"}))
	if got := status.Convert(err).Message(); got != "a is closing" {
		t.Errorf("got %q", got)
	}
}

func TestContextEndsKeepTheirCodesBothWays(t *testing.T) {
	for _, c := range []struct {
		err  error
		code codes.Code
	}{{context.Canceled, codes.Canceled}, {context.DeadlineExceeded, codes.DeadlineExceeded}} {
		wire := Status(fmt.Errorf("wait: %w", c.err))
		if status.Code(wire) != c.code {
			t.Errorf("%v: code %v", c.err, status.Code(wire))
		}
		back := FromStatus(wire)
		if !errors.Is(back, c.err) || status.Code(back) != c.code || status.Code(Status(back)) != c.code {
			t.Errorf("%v came back as %v with code %v", c.err, back, status.Code(back))
		}
		if ReasonOf(back) != iqv1.Reason_REASON_UNSPECIFIED {
			t.Errorf("%v has reason %v", c.err, ReasonOf(back))
		}
	}
}

func TestAFactSaysMoreThanTheContextThatEndedWithIt(t *testing.T) {
	err := errors.Join(context.DeadlineExceeded, &StaleError{Refusals: refusals(), MaxOffsetLag: new(int64(50))})
	if got := status.Code(Status(err)); got != codes.FailedPrecondition {
		t.Errorf("code %v", got)
	}
}

func TestNumbersWinOverABareSentinelJoinedBeforeThem(t *testing.T) {
	err := errors.Join(ErrClosing, &OverloadedError{Node: "a", InFlight: 65, Limit: 64})
	var over *OverloadedError
	if back := FromStatus(Status(err)); !errors.As(back, &over) || over.InFlight != 65 || ReasonOf(err) != iqv1.Reason_REASON_OVERLOADED {
		t.Errorf("got %v, reason %v", back, ReasonOf(err))
	}
}

func TestAStatusPassesUnchanged(t *testing.T) {
	in := status.Error(codes.PermissionDenied, "no")
	for _, err := range []error{in, fmt.Errorf("secret path: %w", in)} {
		out := Status(err)
		if status.Code(out) != codes.PermissionDenied || status.Convert(out).Message() != "no" {
			t.Errorf("got %v", out)
		}
	}
	if FromStatus(in) != in { //nolint:errorlint // the very same error is the point
		t.Error("FromStatus changed a status that is not ours")
	}
	if Retriable(in) {
		t.Error("PERMISSION_DENIED is retriable")
	}
}

func TestNilStaysNil(t *testing.T) {
	if Status(nil) != nil || FromStatus(nil) != nil || Retriable(nil) || ReasonOf(nil) != 0 {
		t.Error("nil became something")
	}
}

func TestStatusSeesTheCodeEvenWhenAHandlerForgetsStatus(t *testing.T) {
	if got := status.Code(&StaleError{Refusals: refusals()}); got != codes.FailedPrecondition {
		t.Errorf("code %v", got)
	}
}

func TestAReasonOfANewerServerIsPassedOn(t *testing.T) {
	st, err := status.New(codes.Unavailable, "new").WithDetails(&errdetails.ErrorInfo{Reason: "QUARANTINED", Domain: Domain})
	if err != nil {
		t.Fatal(err)
	}
	if got := FromStatus(st.Err()); ReasonOf(got) != 0 || status.Code(got) != codes.Unavailable || !Retriable(got) {
		t.Errorf("got %v", got)
	}
}

func TestAnotherDomainsReasonIsNotOurs(t *testing.T) {
	st, err := status.New(codes.FailedPrecondition, "x").WithDetails(&errdetails.ErrorInfo{Reason: "STALE", Domain: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if got := FromStatus(st.Err()); errors.Is(got, ErrStale) {
		t.Errorf("got %v", got)
	}
}

func TestAllInvalidFieldsArrive(t *testing.T) {
	sent := errors.Join(
		Invalid("store", "", "is required"),
		fmt.Errorf("policy: %w", Invalid("policy.wait", -time.Second, "must not be negative")),
		Invalid("partition", int32(-2), "must not be negative"),
	)
	wire := overWire(t, Status(sent))
	if got, want := status.Convert(wire).Message(),
		`store "": is required; policy.wait -1s: must not be negative; partition -2: must not be negative`; got != want {
		t.Errorf("text %q\nwant %q", got, want)
	}
	got := allInvalid(FromStatus(wire))
	want := []InvalidError{
		{"store", `""`, "is required"}, {"policy.wait", "-1s", "must not be negative"}, {"partition", "-2", "must not be negative"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d fields, want %d", len(got), len(want))
	}
	for i := range want {
		if *got[i] != want[i] {
			t.Errorf("field %d: %v, want %v", i, *got[i], want[i])
		}
	}
}

// TestDetailsFitAJavaClientsTrailer: grpc-java refuses more than 8 KiB of metadata and then the caller sees INTERNAL
// instead of the refusal. The bin header is base64, so 4/3 of the bytes.
func TestDetailsFitAJavaClientsTrailer(t *testing.T) {
	r := Refusals{Store: "orders"}
	for i := range 1000 {
		r.Candidates = append(r.Candidates, &iqv1.Candidate{
			Replica: &iqv1.ReplicaStatus{
				Node: fmt.Sprintf("node-%d", i), Store: "orders", Role: iqv1.Role_ROLE_STANDBY, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING,
				Position: math.MaxInt64, EndPosition: math.MaxInt64, OffsetLag: new(int64(math.MaxInt64)), Address: "node-0001.example.com:7001",
			},
			Why: "is behind",
		})
	}
	err := Status(&StaleError{Refusals: r, MaxOffsetLag: new(int64(1))})
	const javaLimit = 8 << 10
	if size := proto.Size(status.Convert(err).Proto())*4/3 + len(status.Convert(err).Message()); size > javaLimit {
		t.Errorf("%d bytes, limit %d", size, javaLimit)
	}
	var stale *StaleError
	if !errors.As(FromStatus(err), &stale) || len(stale.Candidates) != maxReplicas {
		t.Errorf("got %v", err)
	}
}

func TestLongTextsAreCutBetweenRunes(t *testing.T) {
	long := strings.Repeat("é", maxTextBytes)
	r := Refusals{Store: "s", Candidates: []*iqv1.Candidate{{Why: "x" + long}}, Attempts: []*iqv1.Attempt{{Message: "x" + long}}}
	wire := overWire(t, Status(&NoReplicaError{Refusals: r}))
	var back *NoReplicaError
	if !errors.As(FromStatus(wire), &back) {
		t.Fatalf("got %v", wire)
	}
	for _, s := range []string{back.Candidates[0].GetWhy(), back.Attempts[0].GetMessage()} {
		if len(s) > maxTextBytes+len(ellipsis) || !strings.HasSuffix(s, ellipsis) || strings.Contains(s, "\ufffd") {
			t.Errorf("cut to %q", s)
		}
	}
	if len(r.Candidates[0].GetWhy()) != 2*maxTextBytes+1 {
		t.Error("the caller's own message was cut")
	}
	if e := Invalid("key", long, "is too long").Error(); len([]rune(e)) > maxValueRunes+40 {
		t.Errorf("%d runes of a caller's value are shown", len([]rune(e)))
	}
}

func TestNamesThatAreNotUTF8StillGiveCodeAndText(t *testing.T) {
	err := Status(&StoreUnknownError{Store: "a\xffb"})
	if !errors.Is(FromStatus(err), ErrStoreUnknown) && status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
}

// FuzzFromStatusTakesAnyBytes: a status comes from another process, perhaps of another version or damaged.
func FuzzFromStatusTakesAnyBytes(f *testing.F) {
	for _, r := range rows() {
		for _, e := range r.errs {
			b, err := proto.Marshal(status.Convert(Status(e)).Proto())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &spb.Status{}
		if proto.Unmarshal(b, p) != nil || p.GetCode() == 0 {
			return
		}
		in := status.FromProto(p).Err()
		out := FromStatus(in)
		if out == nil || ReasonOf(out) != ReasonOf(in) {
			t.Errorf("%v (%v) came back as %v (%v)", in, ReasonOf(in), out, ReasonOf(out))
		}
		_ = Status(out).Error()
	})
}
