package local

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// service answers a Get with what it was asked and by whom, and a Scan with so many rows as its limit says.
type service struct {
	iqv1.UnimplementedQueryServiceServer
	left chan error // how Scan ended
}

func (*service) Get(ctx context.Context, m *iqv1.GetRequest) (*iqv1.GetResponse, error) {
	m.Store += " seen" // a handler's request is its own
	in, _ := metadata.FromIncomingContext(ctx)
	out, _ := metadata.FromOutgoingContext(ctx)
	if len(out) > 0 {
		return nil, status.Errorf(codes.Internal, "the handler's own calls would show %v", out)
	}
	if string(m.GetKey()) == "bad" {
		return nil, status.Error(codes.NotFound, "bad")
	}
	return &iqv1.GetResponse{Found: true, Value: []byte(in.Get("authorization")[0]), Served: &iqv1.ReplicaStatus{Node: m.GetStore()}}, nil
}

func (s *service) Scan(m *iqv1.ScanRequest, stream grpc.ServerStreamingServer[iqv1.ScanResponse]) error {
	var err error
	for i := int64(0); i < m.GetLimit() && err == nil; i++ {
		err = stream.Send(&iqv1.ScanResponse{PageToken: []byte{byte(i)}})
	}
	if s.left != nil {
		s.left <- err
	}
	if err == nil && m.GetReverse() {
		err = status.Error(codes.Aborted, "turned")
	}
	return err
}

func newClient(s *service, unary grpc.UnaryServerInterceptor, streams grpc.StreamServerInterceptor) (*Server, iqv1.QueryServiceClient) {
	server := New(unary, streams)
	iqv1.RegisterQueryServiceServer(server, s)
	return server, iqv1.NewQueryServiceClient(server)
}

func TestACallMeetsWhatItWouldMeetBehindAServer(t *testing.T) {
	var called []string
	unary := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		called = append(called, info.FullMethod)
		return next(ctx, req)
	}
	streams := func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		called = append(called, info.FullMethod)
		return next(srv, ss)
	}
	_, c := newClient(&service{}, unary, streams)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer x")
	m := &iqv1.GetRequest{Store: "s"}
	resp, err := c.Get(ctx, m)
	if err != nil || string(resp.GetValue()) != "Bearer x" || resp.GetServed().GetNode() != "s seen" || m.GetStore() != "s" {
		t.Errorf("%v, %v; the request is %v now", resp, err, m)
	}
	if _, err := c.Get(ctx, &iqv1.GetRequest{Key: []byte("bad")}); status.Code(err) != codes.NotFound {
		t.Errorf("an error: %v", err)
	}
	if _, err := c.Count(ctx, &iqv1.CountRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that the service lacks: %v", err)
	}
	if _, err := c.Lookups(ctx); status.Code(err) != codes.Unimplemented {
		t.Errorf("a stream of requests: %v", err)
	}
	if err := New(nil, nil).Invoke(ctx, "/x/Y", m, resp); status.Code(err) != codes.Unimplemented {
		t.Errorf("no service: %v", err)
	}
	stream, err := c.Scan(ctx, &iqv1.ScanRequest{Limit: 2, Reverse: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if resp, err := stream.Recv(); err != nil || resp.GetPageToken()[0] != byte(i) {
			t.Errorf("message %d: %v, %v", i, resp, err)
		}
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Aborted {
		t.Errorf("the stream's error: %v", err)
	}
	if len(called) != 4 || called[3] != iqv1.QueryService_Scan_FullMethodName {
		t.Errorf("the interceptors saw %v", called)
	}
}

func TestAStreamEndsWithItsHandlerOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{left: make(chan error, 1)}
		server, c := newClient(s, nil, nil)
		stream, err := c.Scan(t.Context(), &iqv1.ScanRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
		if err := <-s.left; err != nil {
			t.Errorf("the handler's end: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stream, err = c.Scan(ctx, &iqv1.ScanRequest{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case err := <-s.left:
			t.Errorf("the handler went on although nobody received: %v", err)
		default:
		}
		cancel()
		if err := <-s.left; status.Code(err) != codes.Canceled {
			t.Errorf("the handler's send: %v", err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("the caller's receive: %v", err)
		}
		server.Wait()
	})
}
