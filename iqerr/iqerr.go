package iqerr

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Domain is the ErrorInfo domain of every error of this package.
const Domain = "iqgate"

// The facts, one per wire reason. Struct errors of this package wrap theirs, so errors.Is works on both.
var (
	// ErrStoreUnknown says that no node has told of such a store.
	ErrStoreUnknown = newFact(iqv1.Reason_REASON_STORE_UNKNOWN, "store unknown")
	// ErrInvalid says that the request is wrong.
	ErrInvalid = newFact(iqv1.Reason_REASON_INVALID, "invalid request")
	// ErrNotReady says that no assignment is known yet.
	ErrNotReady = newFact(iqv1.Reason_REASON_NOT_READY, "not ready: no assignment is known yet")
	// ErrNotHosted says that the node asked does not hold the replica.
	ErrNotHosted = newFact(iqv1.Reason_REASON_NOT_HOSTED, "the replica is not hosted here")
	// ErrNoActive says that no replica is a RUNNING active under a valid lease.
	ErrNoActive = newFact(iqv1.Reason_REASON_NO_ACTIVE, "no active replica")
	// ErrNoReplica says that nobody alive holds the partition.
	ErrNoReplica = newFact(iqv1.Reason_REASON_NO_REPLICA, "no replica alive")
	// ErrStale says that replicas live, but none is within the read policy.
	ErrStale = newFact(iqv1.Reason_REASON_STALE, "no replica within the read policy")
	// ErrPositionNotReached says that replicas live, but none has reached the position asked for.
	ErrPositionNotReached = newFact(iqv1.Reason_REASON_POSITION_NOT_REACHED, "no replica has reached the position")
	// ErrPartitionsChanged says that the topic's partition count is no longer the store's.
	ErrPartitionsChanged = newFact(iqv1.Reason_REASON_PARTITIONS_CHANGED, "the partition count has changed")
	// ErrOverloaded says that an admission limit was reached.
	ErrOverloaded = newFact(iqv1.Reason_REASON_OVERLOADED, "overloaded")
	// ErrClosing says that the node or the store is shutting down.
	ErrClosing = newFact(iqv1.Reason_REASON_CLOSING, "closing")
	// ErrCorrupt says that the store's data are damaged and being rebuilt.
	ErrCorrupt = newFact(iqv1.Reason_REASON_CORRUPT, "store data damaged")
	// ErrPageLost says that a page token or a watch's position cannot be gone on from.
	ErrPageLost = newFact(iqv1.Reason_REASON_PAGE_LOST, "cannot go on from there; begin anew")
	// ErrSlowReader says that a stream was ended because its caller did not take what was sent.
	ErrSlowReader = newFact(iqv1.Reason_REASON_SLOW_READER, "the stream's reader was too slow")
	// ErrUnauthenticated says that the server does not know who calls.
	ErrUnauthenticated = newFact(iqv1.Reason_REASON_UNAUTHENTICATED, "not authenticated")
	// ErrPermissionDenied says that the caller may not do what it asked for.
	ErrPermissionDenied = newFact(iqv1.Reason_REASON_PERMISSION_DENIED, "not allowed")
)

// factError is the type of the sentinels.
type factError struct {
	reason iqv1.Reason
	text   string
}

func newFact(reason iqv1.Reason, text string) error { return &factError{reason: reason, text: text} }

func (e *factError) Error() string { return e.text }

// GRPCStatus lets status.Code see the right code on any error of this package, even without Status.
func (e *factError) GRPCStatus() *status.Status { return status.New(CodeOf(e.reason), e.text) }

// numbered is a struct error of this package: it wraps its sentinel and knows how to cross the wire.
type numbered interface {
	error
	Unwrap() error
	encode(d *details)
}

// find gives the fact that err stands for: a struct error before a bare sentinel, depth first.
// Both results are nil when err holds neither.
func find(err error) (numbered, *factError) {
	if n, ok := errors.AsType[numbered](err); ok {
		if f, ok := n.Unwrap().(*factError); ok { //nolint:errorlint // a struct error wraps its sentinel and nothing else
			return n, f
		}
	}
	if f, ok := errors.AsType[*factError](err); ok {
		return nil, f
	}
	return nil, nil
}

// ReasonOf gives the wire reason of err, whether it was made here, wrapped, joined, or is a gRPC status error that
// carries one. REASON_UNSPECIFIED for nil and for every other error.
func ReasonOf(err error) iqv1.Reason {
	if err == nil {
		return iqv1.Reason_REASON_UNSPECIFIED
	}
	if _, f := find(err); f != nil {
		return f.reason
	}
	if st := statusIn(err); st != nil {
		return parseDetails(st).reason
	}
	return iqv1.Reason_REASON_UNSPECIFIED
}

// Name gives a reason as ErrorInfo and logs show it, without the enum's prefix: "STALE".
func Name(reason iqv1.Reason) string { return strings.TrimPrefix(reason.String(), reasonPrefix) }

const reasonPrefix = "REASON_"

// CodeOf gives the gRPC code of a reason. A reason that this build does not know, and REASON_UNSPECIFIED, are INTERNAL.
func CodeOf(reason iqv1.Reason) codes.Code {
	switch reason {
	case iqv1.Reason_REASON_STORE_UNKNOWN:
		return codes.NotFound
	case iqv1.Reason_REASON_INVALID:
		return codes.InvalidArgument
	case iqv1.Reason_REASON_NOT_READY,
		iqv1.Reason_REASON_NOT_HOSTED,
		iqv1.Reason_REASON_NO_ACTIVE,
		iqv1.Reason_REASON_NO_REPLICA,
		iqv1.Reason_REASON_CLOSING:
		return codes.Unavailable
	case iqv1.Reason_REASON_STALE,
		iqv1.Reason_REASON_POSITION_NOT_REACHED,
		iqv1.Reason_REASON_PARTITIONS_CHANGED:
		return codes.FailedPrecondition
	case iqv1.Reason_REASON_OVERLOADED:
		return codes.ResourceExhausted
	case iqv1.Reason_REASON_CORRUPT:
		return codes.DataLoss
	case iqv1.Reason_REASON_PAGE_LOST,
		iqv1.Reason_REASON_SLOW_READER:
		return codes.Aborted
	case iqv1.Reason_REASON_UNAUTHENTICATED:
		return codes.Unauthenticated
	case iqv1.Reason_REASON_PERMISSION_DENIED:
		return codes.PermissionDenied
	case iqv1.Reason_REASON_UNSPECIFIED:
	}
	return codes.Internal
}

// Retriable says whether another replica, or another server, may answer a read that failed with err. Reads are
// idempotent, so that is so for every failure of one server: unreachable, hanging, overloaded, too far behind, damaged,
// broken. It is not for a wrong request, an unknown store, a changed partition count, a page that is lost, or a caller who is
// not let in. Whoever retries looks at its own
// context first: a context's end may be that of one attempt, so it is retriable here.
func Retriable(err error) bool {
	if err == nil {
		return false
	}
	switch ReasonOf(err) {
	case iqv1.Reason_REASON_STORE_UNKNOWN,
		iqv1.Reason_REASON_INVALID,
		iqv1.Reason_REASON_PARTITIONS_CHANGED,
		iqv1.Reason_REASON_PAGE_LOST,
		iqv1.Reason_REASON_UNAUTHENTICATED,
		iqv1.Reason_REASON_PERMISSION_DENIED:
		return false
	case iqv1.Reason_REASON_NOT_READY,
		iqv1.Reason_REASON_NOT_HOSTED,
		iqv1.Reason_REASON_NO_ACTIVE,
		iqv1.Reason_REASON_NO_REPLICA,
		iqv1.Reason_REASON_STALE,
		iqv1.Reason_REASON_POSITION_NOT_REACHED,
		iqv1.Reason_REASON_OVERLOADED,
		iqv1.Reason_REASON_CLOSING,
		iqv1.Reason_REASON_CORRUPT,
		iqv1.Reason_REASON_SLOW_READER:
		return true
	case iqv1.Reason_REASON_UNSPECIFIED:
	}
	switch status.Code(Status(err)) { //nolint:exhaustive // the other codes say that the request failed and not this server
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss, codes.Aborted, codes.ResourceExhausted,
		codes.Unimplemented, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}
