package client

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/iqgate/iqgate/mux"
	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// errClosed is what reads fail with that are in flight when the client is closed, as gRPC says it of calls.
var errClosed = status.Error(codes.Canceled, "the client is closing")

// lookups reads at one server over one stream that all reads share. The stream is opened with the first read, and kept open.
type lookups struct {
	conn  grpc.ClientConnInterface
	mux   *mux.Client
	ctx   context.Context //nolint:containedctx // the stream's life, which is the client's
	end   context.CancelCauseFunc
	begin sync.Once
	runs  sync.WaitGroup
}

func newLookups(conn grpc.ClientConnInterface, name string) *lookups {
	l := &lookups{conn: conn, mux: mux.NewClient(conn, name)}
	l.ctx, l.end = context.WithCancelCause(context.Background()) //nolint:forbidigo // ends with the client
	return l
}

// closer ends the stream and then closes its connection.
func (l *lookups) closer(closeConn func() error) func() error {
	return func() error {
		l.begin.Do(func() {}) // it does not begin any more
		l.end(errClosed)
		l.runs.Wait()
		return closeConn()
	}
}

// get is QueryService.Get.
func (l *lookups) get(ctx context.Context, req *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	l.begin.Do(func() { l.runs.Go(func() { l.mux.Run(l.ctx) }) })
	request, err := proto.Marshal(req)
	if err != nil {
		return nil, status.Error(codes.Internal, "the request cannot be written: "+err.Error()) // as gRPC says it
	}
	reply, err := l.mux.Do(ctx, mux.Ask{Request: request})
	if errors.Is(err, mux.ErrByCall) {
		reply, err = mux.Invoke(ctx, l.conn, request)
	}
	if err != nil {
		return nil, err
	}
	resp := &iqv1.GetResponse{}
	if err := proto.Unmarshal(reply, resp); err != nil {
		return nil, status.Error(codes.Internal, "the reply makes no sense: "+err.Error())
	}
	return resp, nil
}
