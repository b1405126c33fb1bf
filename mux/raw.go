package mux

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	iqv1 "github.com/iqgate/iqgate/proto/iq/v1"
)

// Service is the query service with Get answered by a Handler, from the wire's bytes to the wire's bytes. All other methods are
// those of the implementation that it is registered with. The server must use Codec. A server with interceptors decodes, since these look at
// messages.
func Service(handle Handler) *grpc.ServiceDesc {
	desc := iqv1.QueryService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "Get" {
			desc.Methods[i].Handler = handle.unary
		}
	}
	return &desc
}

// unary is Get as gRPC's server calls it.
func (h Handler) unary(server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // the order is gRPC's
	if interceptor == nil {
		in := new(Frame)
		if err := decode(in); err != nil {
			return nil, err
		}
		reply, err := h(ctx, in.Bytes)
		if err != nil {
			return nil, err
		}
		return &Frame{Bytes: reply}, nil
	}
	in := new(iqv1.GetRequest) // interceptors look at messages
	if err := decode(in); err != nil {
		return nil, err
	}
	info := &grpc.UnaryServerInfo{Server: server, FullMethod: iqv1.QueryService_Get_FullMethodName}
	return interceptor(ctx, in, info, h.message)
}

// message is the handler for messages in place of their bytes.
func (h Handler) message(ctx context.Context, in any) (any, error) {
	m, ok := in.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "an interceptor has made a %T of the request", in)
	}
	request, err := proto.Marshal(m)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	reply, err := h(ctx, request)
	if err != nil {
		return nil, err
	}
	out := new(iqv1.GetResponse)
	if err := proto.Unmarshal(reply, out); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return out, nil
}
