package local

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// NewStream implements grpc.ClientConnInterface. The handler runs from the sending of the request until it returns or ctx
// ends, whichever way the caller goes: it ends ctx when it is done with the stream.
func (s *Server) NewStream(ctx context.Context, _ *grpc.StreamDesc, name string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	m, ok := s.streams[name]
	if !ok {
		return nil, unknown(name)
	}
	p := &pipe{ctx: ctx, responses: make(chan any), ended: make(chan struct{})}
	p.start = func(request any) {
		s.running.Go(func() {
			defer close(p.ended)
			info := &grpc.StreamServerInfo{FullMethod: name, IsServerStream: true}
			p.err = s.stream(m.service, &serverEnd{pipe: p, ctx: arrived(ctx), request: request}, info, m.desc.Handler)
		})
	}
	return &clientEnd{p}, nil
}

// pipe joins both ends of a stream.
type pipe struct {
	ctx       context.Context //nolint:containedctx // a stream has one
	start     func(request any)
	responses chan any
	ended     chan struct{} // closed when the handler has returned
	err       error         // what it returned, once ended is closed
}

// clientEnd is what the caller has of a stream.
type clientEnd struct{ *pipe }

// Header implements grpc.ClientStream; there is none.
func (*clientEnd) Header() (metadata.MD, error) { return nil, nil } //nolint:nilnil // handlers here send none

// Trailer implements grpc.ClientStream; there is none.
func (*clientEnd) Trailer() metadata.MD { return nil }

// CloseSend implements grpc.ClientStream.
func (*clientEnd) CloseSend() error { return nil }

// Context implements grpc.ClientStream.
func (c *clientEnd) Context() context.Context { return c.ctx }

// SendMsg sends the one request of the stream.
func (c *clientEnd) SendMsg(m any) error {
	if c.start == nil {
		return status.Error(codes.Internal, "a second request on a stream of one")
	}
	c.start(m)
	c.start = nil
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (c *clientEnd) RecvMsg(m any) error {
	select {
	case response := <-c.responses:
		return share(m, response)
	case <-c.ended:
		if c.err != nil {
			return c.err
		}
		return io.EOF
	case <-c.ctx.Done():
		return status.FromContextError(c.ctx.Err()).Err()
	}
}

// serverEnd is what the handler has of a stream.
type serverEnd struct {
	*pipe
	ctx     context.Context //nolint:containedctx // a stream has one
	request any             // nil once it was received
}

// SetHeader implements grpc.ServerStream; headers are passed over.
func (*serverEnd) SetHeader(metadata.MD) error { return nil }

// SendHeader implements grpc.ServerStream.
func (*serverEnd) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements grpc.ServerStream.
func (*serverEnd) SetTrailer(metadata.MD) {}

// Context implements grpc.ServerStream.
func (s *serverEnd) Context() context.Context { return s.ctx }

// RecvMsg gives the one request.
func (s *serverEnd) RecvMsg(m any) error {
	if s.request == nil {
		return io.EOF
	}
	request := s.request
	s.request = nil
	return clone(m, request)
}

// SendMsg hands a response over.
func (s *serverEnd) SendMsg(m any) error {
	select {
	case s.responses <- m:
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}
