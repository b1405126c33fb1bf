package iqerr

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

func refusals() Refusals {
	return Refusals{
		Store: "orders", Partition: 3,
		Candidates: []*iqv1.Candidate{{
			Replica: &iqv1.ReplicaStatus{
				Node: "b", Store: "orders", Partition: 3, Role: iqv1.Role_ROLE_STANDBY, State: iqv1.ReplicaState_REPLICA_STATE_RUNNING,
				Position: 90, EndPosition: 1000, OffsetLag: new(int64(910)), TimeLag: durationpb.New(1234567891),
			},
			Why: "910 offsets behind, more than 50", Reason: iqv1.Reason_REASON_STALE,
		}, {
			Replica: &iqv1.ReplicaStatus{Node: "a", Role: iqv1.Role_ROLE_ACTIVE, State: iqv1.ReplicaState_REPLICA_STATE_SUSPENDED},
			Why:     "suspect: silent for 600ms", Reason: iqv1.Reason_REASON_NO_ACTIVE,
		}},
		Attempts: []*iqv1.Attempt{{
			Node: "c", Address: "10.0.0.3:7001", Code: "Unavailable", Reason: "CLOSING", Message: "c is closing", Elapsed: durationpb.New(12 * time.Millisecond),
		}},
	}
}

// row is what one reason must do on the wire. Zero and extreme numbers are among the errors: both are numbers like others.
type row struct {
	sentinel  error
	code      codes.Code
	retriable bool
	retryInfo bool
	errs      []error
}

func rows() map[iqv1.Reason]row {
	atLeast := &iqv1.Position{Offsets: []*iqv1.PartitionOffset{{Topic: "flights", Partition: 0, Offset: math.MaxInt64}, {Topic: "flights", Partition: 1}}}
	return map[iqv1.Reason]row{
		iqv1.Reason_REASON_STORE_UNKNOWN: {ErrStoreUnknown, codes.NotFound, false, false, []error{
			&StoreUnknownError{Store: "ordrs", Known: []string{"orders", "flights"}}, &StoreUnknownError{Store: "x"},
		}},
		iqv1.Reason_REASON_INVALID: {ErrInvalid, codes.InvalidArgument, false, false, []error{
			Invalid("policy.max_staleness", -time.Second, "must not be negative"), Invalid("store", "", "is required"), Invalid("policy", nil, "is required"),
		}},
		iqv1.Reason_REASON_NOT_READY: {ErrNotReady, codes.Unavailable, true, true, []error{
			&NotReadyError{Node: "r1", Waiting: "a report of any node", RetryAfter: 84 * time.Millisecond},
		}},
		iqv1.Reason_REASON_NOT_HOSTED: {ErrNotHosted, codes.Unavailable, true, false, []error{
			&NotHostedError{Node: "a", Store: "orders", Partition: 3, Named: []string{"b", "c"}}, &NotHostedError{Node: "a", Store: "orders", Partition: math.MaxInt32},
		}},
		iqv1.Reason_REASON_NO_ACTIVE: {ErrNoActive, codes.Unavailable, true, true, []error{
			&NoActiveError{Refusals: refusals(), RetryAfter: time.Nanosecond},
		}},
		iqv1.Reason_REASON_NO_REPLICA: {ErrNoReplica, codes.Unavailable, true, false, []error{
			&NoReplicaError{Refusals: refusals()}, &NoReplicaError{Refusals: Refusals{Store: "orders"}},
		}},
		iqv1.Reason_REASON_STALE: {ErrStale, codes.FailedPrecondition, true, false, []error{
			&StaleError{Refusals: refusals(), MaxStaleness: new(1234567891 * time.Nanosecond), MaxOffsetLag: new(int64(50))},
			&StaleError{Refusals: refusals(), MaxStaleness: new(time.Duration(0)), MaxOffsetLag: new(int64(0))},
			&StaleError{Refusals: refusals(), MaxStaleness: new(time.Duration(math.MaxInt64)), MaxOffsetLag: new(int64(math.MaxInt64))},
			&StaleError{Refusals: refusals(), MaxStaleness: new(time.Duration(math.MinInt64 + 1))},
			&StaleError{Refusals: refusals()},
		}},
		iqv1.Reason_REASON_POSITION_NOT_REACHED: {ErrPositionNotReached, codes.FailedPrecondition, true, false, []error{
			&PositionError{Refusals: refusals(), AtLeast: atLeast},
		}},
		iqv1.Reason_REASON_PARTITIONS_CHANGED: {ErrPartitionsChanged, codes.FailedPrecondition, false, false, []error{
			&PartitionsChangedError{Store: "orders", Topic: "orders-in", Want: 3, Have: 6}, &PartitionsChangedError{Store: "orders", Want: 3},
		}},
		iqv1.Reason_REASON_OVERLOADED: {ErrOverloaded, codes.ResourceExhausted, true, true, []error{
			&OverloadedError{Node: "a", InFlight: 1 << 40, Limit: 64, RetryAfter: time.Hour},
		}},
		iqv1.Reason_REASON_CLOSING: {ErrClosing, codes.Unavailable, true, false, []error{
			&ClosingError{Node: "a"}, &ClosingError{Node: "a", Store: "orders"},
		}},
		iqv1.Reason_REASON_CORRUPT: {ErrCorrupt, codes.DataLoss, true, false, []error{
			&CorruptError{Node: "a", Store: "orders", Partition: 3, Problem: "checksum of table 000012"},
		}},
		iqv1.Reason_REASON_PAGE_LOST: {ErrPageLost, codes.Aborted, false, false, []error{
			&PageLostError{Store: "orders", Partition: NoPartition, Problem: "the store's changelog was made anew"},
			&PageLostError{Store: "orders", Partition: 0, Problem: "position 7 is below the changelog's start 9"},
		}},
		iqv1.Reason_REASON_SLOW_READER: {ErrSlowReader, codes.Aborted, true, false, []error{
			&SlowReaderError{Node: "r1", Waited: 30 * time.Second}, &SlowReaderError{},
		}},
		iqv1.Reason_REASON_UNAUTHENTICATED: {ErrUnauthenticated, codes.Unauthenticated, false, false, []error{
			&UnauthenticatedError{Problem: "the token has expired"},
		}},
		iqv1.Reason_REASON_PERMISSION_DENIED: {ErrPermissionDenied, codes.PermissionDenied, false, false, []error{
			&DeniedError{Action: "read", Store: "orders", Problem: "only keys with certain prefixes are allowed"}, &DeniedError{Action: "control"},
		}},
	}
}

func TestEveryReasonCrossesTheWireWithItsExactNumbers(t *testing.T) {
	all := rows()
	for n, name := range iqv1.Reason_name {
		reason := iqv1.Reason(n)
		if reason == iqv1.Reason_REASON_UNSPECIFIED {
			continue
		}
		r, ok := all[reason]
		if !ok {
			t.Errorf("%s has no error: map it in this package and add it to rows", name)
			continue
		}
		for _, want := range append(r.errs, r.sentinel) {
			t.Run(fmt.Sprintf("%s/%T", Name(reason), want), func(t *testing.T) { checkCrossing(t, reason, r, want) })
		}
	}
}

func checkCrossing(t *testing.T, reason iqv1.Reason, r row, want error) {
	t.Helper()
	_, bare := want.(*factError) //nolint:errorlint // the sentinel itself, not what wraps it
	for _, sent := range []error{want, fmt.Errorf("get orders: %w", want), errors.Join(errors.New("other"), want)} {
		wire := overWire(t, Status(sent))
		if got := status.Code(wire); got != r.code {
			t.Errorf("code %v, want %v", got, r.code)
		}
		got := FromStatus(wire)
		if !bare && !same(reflect.ValueOf(got), reflect.ValueOf(want)) {
			t.Errorf("came back as %#v\nwant %#v", got, want)
		}
		if got.Error() != want.Error() {
			t.Errorf("came back as %q\nwant %q", got, want)
		}
		for _, e := range []error{sent, wire, got, fmt.Errorf("read: %w", got)} {
			if ReasonOf(e) != reason || Retriable(e) != r.retriable || status.Code(Status(e)) != r.code {
				t.Errorf("%T: reason %v, retriable %t, code %v; want %v, %t, %v",
					e, ReasonOf(e), Retriable(e), status.Code(Status(e)), reason, r.retriable, r.code)
			}
		}
		for other, o := range rows() {
			if errors.Is(got, o.sentinel) != (other == reason) {
				t.Errorf("errors.Is(%v, %v) is %t", got, o.sentinel, errors.Is(got, o.sentinel))
			}
		}
		checkInfo(t, wire, reason, r.retryInfo && !bare)
	}
}

func checkInfo(t *testing.T, wire error, reason iqv1.Reason, retryInfo bool) {
	t.Helper()
	var infos, retries int
	for _, d := range status.Convert(wire).Details() {
		switch m := d.(type) {
		case *errdetails.ErrorInfo:
			infos++
			if m.GetReason() != Name(reason) || m.GetDomain() != "iqgate" {
				t.Errorf("ErrorInfo %v", m)
			}
		case *errdetails.RetryInfo:
			retries++
		case error:
			t.Errorf("unreadable detail: %v", m)
		}
	}
	if infos != 1 || (retries == 1) != retryInfo {
		t.Errorf("%d ErrorInfo, %d RetryInfo, want 1 and %t", infos, retries, retryInfo)
	}
}

// overWire passes a status error through its bytes, as gRPC does.
func overWire(t *testing.T, err error) error {
	t.Helper()
	b, mErr := proto.Marshal(status.Convert(err).Proto())
	if mErr != nil {
		t.Fatal(mErr)
	}
	p := status.Convert(err).Proto()
	proto.Reset(p)
	if mErr := proto.Unmarshal(b, p); mErr != nil {
		t.Fatal(mErr)
	}
	return status.FromProto(p).Err()
}

// same compares two values field by field, messages as messages: their Go structs hold caches that differ.
func same(a, b reflect.Value) bool {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return false
	}
	if !a.IsValid() {
		return true
	}
	if m, ok := reflect.TypeAssert[proto.Message](a); ok && a.Kind() == reflect.Pointer {
		return proto.Equal(m, b.Interface().(proto.Message))
	}
	switch a.Kind() { //nolint:exhaustive // the other kinds have no parts
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// TestKeyErrorKeepsCodeReasonTextAndRefusals passes every error as the failure of one key of a MultiGet, and that on as the
// failure of another server's key.
func TestKeyErrorKeepsCodeReasonTextAndRefusals(t *testing.T) {
	for reason, r := range rows() {
		for _, want := range append(r.errs, r.sentinel) {
			k := ToKeyError(fmt.Errorf("get orders: %w", want))
			got := FromKeyError(k)
			if !errors.Is(got, r.sentinel) || ReasonOf(got) != reason || Retriable(got) != r.retriable || got.Error() != want.Error() {
				t.Errorf("%T: %v, reason %v, retriable %t; want %v", want, got, ReasonOf(got), Retriable(got), want)
			}
			if again := ToKeyError(got); !proto.Equal(again, k) {
				t.Errorf("%T: passed on as %v\nwant %v", want, again, k)
			}
			if status.Code(Status(got)) != r.code || status.Convert(Status(got)).Message() != want.Error() {
				t.Errorf("%T: as a status %v", want, Status(got))
			}
		}
	}
	if ToKeyError(nil) != nil || FromKeyError(nil) != nil {
		t.Error("no error became one")
	}
	secret := FromKeyError(ToKeyError(errors.New("open /var/lib/secret")))
	if status.Code(Status(secret)) != codes.Internal || ReasonOf(secret) != iqv1.Reason_REASON_UNSPECIFIED || !Retriable(secret) {
		t.Errorf("another error became %v", secret)
	}
}
