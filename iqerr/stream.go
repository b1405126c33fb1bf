package iqerr

import (
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// NoPartition stands for the partition of a failure that is not about one.
const NoPartition = -1

// PageLostError says that a page token or a watch's position cannot be gone on from: the changelog was made anew or cut, or
// the partitions have changed. Whoever meets it begins anew.
type PageLostError struct {
	// Store and Partition name what was to be gone on with; NoPartition for all of the store.
	Store     string
	Partition int32
	// Problem says what has changed: "the store's changelog was made anew".
	Problem string
}

func (e *PageLostError) Error() string {
	where := e.Store
	if e.Partition != NoPartition {
		where = fmt.Sprintf("%s/%d", e.Store, e.Partition)
	}
	return where + ": cannot go on, begin anew: " + e.Problem
}

// Unwrap gives ErrPageLost.
func (e *PageLostError) Unwrap() error { return ErrPageLost }

func (e *PageLostError) encode(d *details) {
	d.put(keyStore, e.Store)
	d.putInt(keyPartition, int64(e.Partition))
	d.put(keyProblem, e.Problem)
}

func decodePageLost(d *details) error {
	return &PageLostError{Store: d.get(keyStore), Partition: d.getInt32(keyPartition), Problem: d.get(keyProblem)}
}

// SlowReaderError says that a stream was ended because its caller did not take what was sent. The caller goes on with the
// last page token or position that it has.
type SlowReaderError struct {
	// Node is the node or router that ended the stream.
	Node string
	// Waited is how long it had tried to send.
	Waited time.Duration
}

func (e *SlowReaderError) Error() string {
	return fmt.Sprintf("%s ended the stream: its reader took nothing for %s; go on with the last page token or position", e.Node, Round(e.Waited))
}

// Unwrap gives ErrSlowReader.
func (e *SlowReaderError) Unwrap() error { return ErrSlowReader }

func (e *SlowReaderError) encode(d *details) {
	d.put(keyNode, e.Node)
	d.putDuration(keyWaited, e.Waited)
}

func decodeSlowReader(d *details) error {
	e := &SlowReaderError{Node: d.get(keyNode)}
	e.Waited, _ = parseDuration(d.get(keyWaited))
	return e
}

// ToKeyError is an error as the failure of one key of a MultiGet; nil for nil. As with Status, the text of an error that is
// not meant for callers is dropped.
func ToKeyError(err error) *iqv1.KeyError {
	if err == nil {
		return nil
	}
	st := status.Convert(Status(err))
	d := parseDetails(st)
	return &iqv1.KeyError{Code: int32(st.Code()), Reason: d.reason, Message: st.Message(), Refusals: d.refusals()}
}

// FromKeyError is the error that a key failed with; nil for nil. errors.Is finds its reason. The numbers of a struct error
// are in its text and its refusals only.
func FromKeyError(k *iqv1.KeyError) error {
	if k == nil {
		return nil
	}
	st := status.New(codes.Code(uint32(k.GetCode())), k.GetMessage())
	var messages []protoadapt.MessageV1
	if sentinelOf(k.GetReason()) != nil {
		messages = append(messages, protoadapt.MessageV1Of(&errdetails.ErrorInfo{Reason: Name(k.GetReason()), Domain: Domain}))
	}
	if k.GetRefusals() != nil {
		messages = append(messages, protoadapt.MessageV1Of(k.GetRefusals()))
	}
	if full, err := st.WithDetails(messages...); err == nil {
		st = full
	}
	return &keyError{status: st, is: sentinelOf(k.GetReason())}
}

// keyError is the failure of one key, as a status.
type keyError struct {
	status *status.Status
	is     error // the sentinel of its reason; nil for none
}

func (e *keyError) Error() string { return e.status.Message() }

// Is finds the reason. The error does not unwrap to its sentinel, which would win over the text that came with it.
func (e *keyError) Is(target error) bool { return e.is != nil && target == e.is }

// GRPCStatus makes the error cross the wire as it came.
func (e *keyError) GRPCStatus() *status.Status { return e.status }
