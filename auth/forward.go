package auth

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// callerHeader has the names of the caller for whom a router asks a node, one a value. The node takes it from routers alone.
// gRPC carries the values of a header of this ending as bytes, so that a name may have any characters.
const callerHeader = "iqgate-caller-bin"

// forward names the caller of ctx, if it has one, to the server that is asked.
func forward(ctx context.Context) (_ context.Context, forwarded bool) {
	s := sessionOf(ctx)
	if s == nil {
		return ctx, false
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Set(callerHeader, s.now.Names...)
	return metadata.NewOutgoingContext(ctx, md), true
}

func forwardUnary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, forwarded := forward(ctx)
	return ownFault(forwarded, invoke(ctx, method, req, reply, cc, opts...))
}

func forwardStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, forwarded := forward(ctx)
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil || !forwarded {
		return s, ownFault(forwarded, err)
	}
	return &forwardedStream{ClientStream: s}, nil
}

// forwardedStream is a stream to a node for somebody else.
type forwardedStream struct{ grpc.ClientStream }

// RecvMsg implements grpc.ClientStream.
func (s *forwardedStream) RecvMsg(m any) error { return ownFault(true, s.ClientStream.RecvMsg(m)) }

// ownFault turns the refusal of a router's own credentials into that of a server that cannot be used: the caller's were
// accepted, and another node may accept the router's.
func ownFault(forwarded bool, err error) error {
	if !forwarded || status.Code(err) != codes.Unauthenticated {
		return err
	}
	return status.Error(codes.Unavailable, "the node does not accept the router's credentials: "+status.Convert(err).Message())
}
