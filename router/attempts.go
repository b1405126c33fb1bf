package router

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/iqgate/iqgate/iqerr"
	"github.com/iqgate/iqgate/metadata"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// attemptToProto says what a replica that was asked said.
func attemptToProto(n *metadata.Node, e *tryError) *iqv1.Attempt {
	st := status.Convert(iqerr.Status(e.err))
	a := &iqv1.Attempt{
		Node: string(n.ID), Address: n.Address, Code: st.Code().String(), Message: st.Message(), Elapsed: durationpb.New(e.elapsed),
	}
	if errors.Is(e.err, errLost) {
		a.Message = errLost.Error()
	}
	if reason := iqerr.ReasonOf(e.err); reason != iqv1.Reason_REASON_UNSPECIFIED {
		a.Reason = iqerr.Name(reason)
	}
	return a
}

// unanswered says whether a failure is that of no server: the connection broke, or the node was lost.
func unanswered(err error) bool {
	if errors.Is(err, errLost) || errors.Is(err, errGone) {
		return true
	}
	return status.Code(err) == codes.Unavailable && iqerr.ReasonOf(err) == iqv1.Reason_REASON_UNSPECIFIED
}

// withAttempts attaches to an error what each replica that was asked said. Its code and numbers stay what they are.
func withAttempts(err error, p metadata.Partition, attempts []*iqv1.Attempt) error {
	if len(attempts) == 0 {
		return err
	}
	if e, ok := errors.AsType[*iqerr.NoActiveError](err); ok {
		e.Attempts = attempts
		return e
	}
	if e, ok := errors.AsType[*iqerr.NoReplicaError](err); ok {
		e.Attempts = attempts
		return e
	}
	if e, ok := errors.AsType[*iqerr.StaleError](err); ok {
		e.Attempts = attempts
		return e
	}
	if e, ok := errors.AsType[*iqerr.PositionError](err); ok {
		e.Attempts = attempts
		return e
	}
	refusals := &iqv1.ReplicaRefusals{Store: p.Store, Partition: p.Partition, Attempts: attempts}
	st, detailErr := status.Convert(iqerr.Status(err)).WithDetails(refusals)
	if detailErr != nil {
		return err
	}
	return st.Err()
}
