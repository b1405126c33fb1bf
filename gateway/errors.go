package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/iqgate/iqgate/iqerr"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// statusClientGone is for a caller who has gone; nobody reads it but logs. It is the number that others use.
const statusClientGone = 499

// httpError is a failure that HTTP has a status of its own for.
type httpError struct {
	http int
	code codes.Code
	text string
}

func (e *httpError) Error() string { return e.text }

// GRPCStatus makes iqerr.Status take the error as it is.
func (e *httpError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }

// httpStatus is the status of an error's answer: by its reason where it has one, else by its code.
func httpStatus(err error) int {
	if e, ok := errors.AsType[*httpError](err); ok {
		return e.http
	}
	switch iqerr.ReasonOf(err) {
	case iqv1.Reason_REASON_STORE_UNKNOWN:
		return http.StatusNotFound
	case iqv1.Reason_REASON_INVALID:
		return http.StatusBadRequest
	case iqv1.Reason_REASON_NOT_READY, iqv1.Reason_REASON_NOT_HOSTED, iqv1.Reason_REASON_NO_ACTIVE, iqv1.Reason_REASON_NO_REPLICA,
		iqv1.Reason_REASON_CLOSING, iqv1.Reason_REASON_CORRUPT:
		return http.StatusServiceUnavailable
	case iqv1.Reason_REASON_STALE, iqv1.Reason_REASON_POSITION_NOT_REACHED:
		return http.StatusPreconditionFailed
	case iqv1.Reason_REASON_PARTITIONS_CHANGED, iqv1.Reason_REASON_SLOW_READER:
		return http.StatusConflict
	case iqv1.Reason_REASON_OVERLOADED:
		return http.StatusTooManyRequests
	case iqv1.Reason_REASON_PAGE_LOST:
		return http.StatusGone
	case iqv1.Reason_REASON_UNAUTHENTICATED:
		return http.StatusUnauthorized
	case iqv1.Reason_REASON_PERMISSION_DENIED:
		return http.StatusForbidden
	case iqv1.Reason_REASON_UNSPECIFIED:
	}
	switch status.Code(iqerr.Status(err)) { //nolint:exhaustive // the others are faults of the server
	case codes.InvalidArgument, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.NotFound:
		return http.StatusNotFound
	case codes.Unavailable, codes.DataLoss:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.FailedPrecondition:
		return http.StatusPreconditionFailed
	case codes.Aborted, codes.AlreadyExists:
		return http.StatusConflict
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.Canceled:
		return statusClientGone
	case codes.Unimplemented:
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	err = asParameters(err)
	code := httpStatus(err)
	h := w.Header()
	if code == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if after := retryAfter(err); after > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(after.Seconds())), 10))
	}
	answer(w, code, statusJSON(err))
}

// retryAfter is when trying again makes sense; 0 for no hint.
func retryAfter(err error) time.Duration {
	for _, d := range status.Convert(iqerr.Status(err)).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// statusJSON is an error as the JSON of google.rpc.Status, on one line.
func statusJSON(err error) json.RawMessage {
	st := status.Convert(iqerr.Status(err)).Proto()
	text, err := protojson.Marshal(st)
	if err != nil { // a detail of a type that this program does not know
		text, err = protojson.Marshal(&spb.Status{Code: st.GetCode(), Message: st.GetMessage()})
	}
	var b bytes.Buffer
	if err == nil {
		err = json.Compact(&b, text) // protojson puts spaces in at random
	}
	if err != nil {
		return json.RawMessage(`{"code":13,"message":"internal error"}`)
	}
	return b.Bytes()
}

// parameterOf names the parameters that stand for fields of requests, by the fields' names without numbers in brackets.
var parameterOf = map[string]string{
	"selection.store": "store", "selection.partitions": "partition", "selection.times": "times", "selection.as_of_ms": "as_of",
	"selection.filter": "filter", "as_of_ms": "as_of", "from.partition": "position", "from.position": "position", "order": "by_partition",
	"policy.mode": "policy", "policy.prefer": "prefer", "policy.rack": "prefer", "policy.isolation": "read_uncommitted",
}

// asParameters has an error about fields of a request of iq.v1 speak of the parameters that they were made of.
func asParameters(err error) error {
	if iqerr.ReasonOf(err) != iqv1.Reason_REASON_INVALID {
		return err
	}
	var all []error
	for _, e := range split(iqerr.FromStatus(err)) {
		invalid, ok := errors.AsType[*iqerr.InvalidError](e)
		if !ok {
			return err
		}
		renamed := *invalid
		field := withoutNumbers(invalid.Field)
		if name, ok := parameterOf[field]; ok {
			renamed.Field = name
		} else if name, ok := strings.CutPrefix(field, "policy."); ok {
			renamed.Field = name
		}
		all = append(all, &renamed)
	}
	return errors.Join(all...)
}

// split gives the errors that were joined, or err alone.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, split(e)...)
		}
		return all
	}
	return []error{err}
}

// withoutNumbers is from.position of from[3].position. Keys keep theirs: they stand in the body.
func withoutNumbers(field string) string {
	if strings.HasPrefix(field, "keys[") || strings.HasPrefix(field, "fields[") {
		return field
	}
	before, rest, ok := strings.Cut(field, "[")
	_, after, _ := strings.Cut(rest, "]")
	if !ok {
		return field
	}
	return before + after
}
