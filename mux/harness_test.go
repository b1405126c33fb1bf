package mux

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// world is a client and a server that may die and come back, inside a synctest bubble.
type world struct {
	t      *testing.T
	client *Client
	conn   *grpc.ClientConn
	server *server

	mu       sync.Mutex
	listener *bufconn.Listener // nil while nobody listens
}

// server is a query service whose answers a test chooses.
type server struct {
	iqv1.UnimplementedQueryServiceServer
	lookups  Server
	grpc     *grpc.Server
	done     sync.WaitGroup
	stopping chan struct{}
	readers  sync.WaitGroup

	mu       sync.Mutex
	asked    [][]byte
	calls    int // by Get
	messages int // of lookups
	streams  int
}

// Lookups implements the service.
func (s *server) Lookups(stream iqv1.QueryService_LookupsServer) error {
	s.mu.Lock()
	s.streams++
	s.mu.Unlock()
	return s.lookups.Serve(counted{stream, s})
}

// counted counts the messages that come.
type counted struct {
	grpc.ServerStream
	s *server
}

func (c counted) RecvMsg(m any) error {
	err := c.ServerStream.RecvMsg(m)
	if err == nil {
		c.s.mu.Lock()
		c.s.messages++
		c.s.mu.Unlock()
	}
	return err
}

func (s *server) count() (asked, calls, messages, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked), s.calls, s.messages, s.streams
}

// inBubble runs a test with a server that answers by handle. It fails when anything is left running.
func inBubble(t *testing.T, handle Handler, limits Server, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w := &world{t: t}
		w.serve(handle, limits)
		conn, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(w.dial), grpc.WithDisableRetry())
		if err != nil {
			t.Fatal(err)
		}
		w.conn = conn
		w.client = NewClient(conn, "the server")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.client.Run(ctx)
		}()
		synctest.Wait()
		test(w)
		cancel(errTestOver)
		<-ended
		_ = conn.Close()
		w.kill()
	})
}

var errTestOver = status.Error(codes.Aborted, "the test is over")

func (w *world) dial(ctx context.Context, _ string) (net.Conn, error) {
	w.mu.Lock()
	l := w.listener
	w.mu.Unlock()
	if l == nil {
		return nil, net.ErrClosed
	}
	return l.DialContext(ctx)
}

// serve starts a server. limits has what the server's lookups are to have besides the handler.
func (w *world) serve(handle Handler, limits Server) {
	s := &server{stopping: make(chan struct{}), lookups: limits}
	counting := func(ctx context.Context, request []byte) ([]byte, error) {
		s.mu.Lock()
		s.asked = append(s.asked, request)
		s.mu.Unlock()
		return handle(ctx, request)
	}
	s.lookups.Handler, s.lookups.Stopping, s.lookups.Readers = counting, s.stopping, &s.readers
	s.grpc = grpc.NewServer(grpc.ForceServerCodecV2(Codec{}), grpc.WaitForHandlers(true))
	s.grpc.RegisterService(Service(func(ctx context.Context, request []byte) ([]byte, error) {
		s.mu.Lock()
		s.calls++
		s.mu.Unlock()
		return handle(ctx, request)
	}), s)
	w.listen(s)
}

// serveOld starts a server that does not know the stream.
func (w *world) serveOld() {
	s := &server{}
	s.grpc = grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		s.mu.Lock()
		s.streams++
		s.mu.Unlock()
		return status.Error(codes.Unimplemented, "unknown method")
	}))
	w.listen(s)
}

func (w *world) listen(s *server) {
	l := bufconn.Listen(1 << 20)
	s.done.Go(func() { _ = s.grpc.Serve(l) })
	w.server = s
	w.mu.Lock()
	w.listener = l
	w.mu.Unlock()
}

// kill ends the server as SIGKILL does.
func (w *world) kill() {
	w.mu.Lock()
	w.listener = nil
	w.mu.Unlock()
	w.server.grpc.Stop()
	w.server.done.Wait()
	w.server.readers.Wait()
}

// do asks with a deadline.
func (w *world) do(request string, within time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), within)
	defer cancel()
	return w.client.Do(ctx, Ask{Request: []byte(request)})
}

// outcome is how a lookup ended.
type outcome struct {
	reply string
	err   error
}

// start asks and gives the outcome later.
func (w *world) start(ctx context.Context, a Ask) chan outcome {
	out := make(chan outcome, 1)
	go func() {
		reply, err := w.client.Do(ctx, a)
		out <- outcome{string(reply), err}
	}()
	return out
}

func echo(_ context.Context, request []byte) ([]byte, error) { return request, nil }

// hang waits until the lookup ends.
func hang(ctx context.Context, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}
