package iqerr

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// internalText is all that a caller learns of an error that is not meant for it.
const internalText = "internal error; see the server's log"

// Status gives err as the gRPC status error to return from a handler; nil for nil. The package comment says what it
// carries. An error that this package does not know becomes INTERNAL and its text is dropped: whoever calls Status logs
// err first when ReasonOf(err) is REASON_UNSPECIFIED.
func Status(err error) error {
	if err == nil {
		return nil
	}
	if n, f := find(err); f != nil {
		return encode(err, n, f)
	}
	if st := statusIn(err); st != nil {
		return st.Err()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, context.Canceled.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, context.DeadlineExceeded.Error())
	}
	return status.Error(codes.Internal, internalText)
}

// encode writes the fact found in err; n is nil for a bare sentinel.
func encode(err error, n numbered, f *factError) error {
	d, text := &details{reason: f.reason}, f.text
	switch all := allInvalid(err); {
	case n == nil:
	case f.reason == iqv1.Reason_REASON_INVALID && len(all) > 1:
		encodeInvalid(d, all)
		text = joinTexts(all)
	default:
		n.encode(d)
		text = n.Error()
	}
	st := status.New(CodeOf(f.reason), text)
	messages := []protoadapt.MessageV1{protoadapt.MessageV1Of(
		&errdetails.ErrorInfo{Reason: Name(f.reason), Domain: Domain, Metadata: d.metadata})}
	for _, m := range d.messages {
		messages = append(messages, protoadapt.MessageV1Of(m))
	}
	full, detailErr := st.WithDetails(messages...)
	if detailErr != nil { // a detail that cannot be marshalled, such as a name that is not UTF-8: code and text still help
		return st.Err()
	}
	return full.Err()
}

func joinTexts(all []*InvalidError) string {
	var texts []string
	for _, e := range atMost(all, maxViolations) {
		texts = append(texts, e.Error())
	}
	return strings.Join(texts, "; ")
}

// statusIn gives the gRPC status in err's tree without the text that wraps it; nil when there is none, or it is OK.
func statusIn(err error) *status.Status {
	carrier, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err)
	if !ok {
		return nil
	}
	if st := carrier.GRPCStatus(); st.Code() != codes.OK {
		return st
	}
	return nil
}

// FromStatus gives the error that the server passed to Status: the same struct error, so that errors.Is and errors.As
// work at the caller as they do at the server. A status that says a context ended is context.Canceled or
// context.DeadlineExceeded to errors.Is. Every other error, nil too, comes back as it is.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, f := find(err); f != nil {
		return err
	}
	st := statusIn(err)
	if st == nil {
		return err
	}
	d := parseDetails(st)
	if sentinel := sentinelOf(d.reason); sentinel != nil {
		if len(d.metadata) == 0 && len(d.messages) == 0 {
			return &remoteError{text: st.Message(), is: sentinel}
		}
		if decoded := decode(d); decoded != nil {
			return decoded
		}
		return &remoteError{text: st.Message(), is: sentinel}
	}
	switch st.Code() { //nolint:exhaustive // the other codes say nothing that errors.Is could ask for
	case codes.Canceled:
		return &contextError{status: st, is: context.Canceled}
	case codes.DeadlineExceeded:
		return &contextError{status: st, is: context.DeadlineExceeded}
	}
	return err
}

// decode gives the struct error of d's reason; nil when the details do not make one.
func decode(d *details) error {
	switch d.reason {
	case iqv1.Reason_REASON_STORE_UNKNOWN:
		return decodeStoreUnknown(d)
	case iqv1.Reason_REASON_INVALID:
		return decodeInvalid(d)
	case iqv1.Reason_REASON_NOT_READY:
		return decodeNotReady(d)
	case iqv1.Reason_REASON_NOT_HOSTED:
		return decodeNotHosted(d)
	case iqv1.Reason_REASON_NO_ACTIVE:
		return decodeNoActive(d)
	case iqv1.Reason_REASON_NO_REPLICA:
		return decodeNoReplica(d)
	case iqv1.Reason_REASON_STALE:
		return decodeStale(d)
	case iqv1.Reason_REASON_POSITION_NOT_REACHED:
		return decodePosition(d)
	case iqv1.Reason_REASON_PARTITIONS_CHANGED:
		return decodePartitionsChanged(d)
	case iqv1.Reason_REASON_OVERLOADED:
		return decodeOverloaded(d)
	case iqv1.Reason_REASON_CLOSING:
		return decodeClosing(d)
	case iqv1.Reason_REASON_CORRUPT:
		return decodeCorrupt(d)
	case iqv1.Reason_REASON_PAGE_LOST:
		return decodePageLost(d)
	case iqv1.Reason_REASON_SLOW_READER:
		return decodeSlowReader(d)
	case iqv1.Reason_REASON_UNAUTHENTICATED:
		return decodeUnauthenticated(d)
	case iqv1.Reason_REASON_PERMISSION_DENIED:
		return decodeDenied(d)
	case iqv1.Reason_REASON_UNSPECIFIED:
	}
	return nil
}

// sentinelOf gives a reason's sentinel; nil for REASON_UNSPECIFIED and reasons that this build does not know.
func sentinelOf(reason iqv1.Reason) error {
	switch reason {
	case iqv1.Reason_REASON_STORE_UNKNOWN:
		return ErrStoreUnknown
	case iqv1.Reason_REASON_INVALID:
		return ErrInvalid
	case iqv1.Reason_REASON_NOT_READY:
		return ErrNotReady
	case iqv1.Reason_REASON_NOT_HOSTED:
		return ErrNotHosted
	case iqv1.Reason_REASON_NO_ACTIVE:
		return ErrNoActive
	case iqv1.Reason_REASON_NO_REPLICA:
		return ErrNoReplica
	case iqv1.Reason_REASON_STALE:
		return ErrStale
	case iqv1.Reason_REASON_POSITION_NOT_REACHED:
		return ErrPositionNotReached
	case iqv1.Reason_REASON_PARTITIONS_CHANGED:
		return ErrPartitionsChanged
	case iqv1.Reason_REASON_OVERLOADED:
		return ErrOverloaded
	case iqv1.Reason_REASON_CLOSING:
		return ErrClosing
	case iqv1.Reason_REASON_CORRUPT:
		return ErrCorrupt
	case iqv1.Reason_REASON_PAGE_LOST:
		return ErrPageLost
	case iqv1.Reason_REASON_SLOW_READER:
		return ErrSlowReader
	case iqv1.Reason_REASON_UNAUTHENTICATED:
		return ErrUnauthenticated
	case iqv1.Reason_REASON_PERMISSION_DENIED:
		return ErrPermissionDenied
	case iqv1.Reason_REASON_UNSPECIFIED:
	}
	return nil
}

// remoteError is a reason that came without its numbers.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }

func (e *remoteError) Unwrap() error { return e.is }

// contextError is a context's end that a status told of.
type contextError struct {
	status *status.Status
	is     error
}

func (e *contextError) Error() string { return e.status.Message() }

func (e *contextError) Unwrap() error { return e.is }

// GRPCStatus keeps the status visible to status.Code.
func (e *contextError) GRPCStatus() *status.Status { return e.status }
