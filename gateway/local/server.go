package local

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Server calls the services that are registered with it. It is safe for concurrent use once all are registered.
type Server struct {
	unary   grpc.UnaryServerInterceptor
	stream  grpc.StreamServerInterceptor
	methods map[string]method
	streams map[string]stream
	running sync.WaitGroup
}

var (
	_ grpc.ServiceRegistrar    = (*Server)(nil)
	_ grpc.ClientConnInterface = (*Server)(nil)
)

// method is a method with one request and one response.
type method struct {
	service any
	desc    grpc.MethodDesc
}

// stream is a method whose responses are many.
type stream struct {
	service any
	desc    grpc.StreamDesc
}

// New makes a server without services. The interceptors stand before each call; nil is none.
func New(unary grpc.UnaryServerInterceptor, streams grpc.StreamServerInterceptor) *Server {
	if unary == nil {
		unary = func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return next(ctx, req)
		}
	}
	if streams == nil {
		streams = func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return next(srv, ss)
		}
	}
	return &Server{unary: unary, stream: streams, methods: map[string]method{}, streams: map[string]stream{}}
}

// RegisterService implements grpc.ServiceRegistrar. Methods whose requests are a stream are left out: nobody calls them from
// within the process.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, service any) {
	for _, m := range desc.Methods {
		s.methods["/"+desc.ServiceName+"/"+m.MethodName] = method{service, m}
	}
	for _, m := range desc.Streams {
		if !m.ClientStreams {
			s.streams["/"+desc.ServiceName+"/"+m.StreamName] = stream{service, m}
		}
	}
}

// Wait returns when no handler runs any more. Nobody may call meanwhile.
func (s *Server) Wait() { s.running.Wait() }

// Invoke implements grpc.ClientConnInterface. Options are passed over: they are about networks.
func (s *Server) Invoke(ctx context.Context, name string, request, reply any, _ ...grpc.CallOption) error {
	m, ok := s.methods[name]
	if !ok {
		return unknown(name)
	}
	s.running.Add(1)
	defer s.running.Done()
	// With an interceptor a handler decodes a message, also where it would else take the wire's bytes.
	out, err := m.desc.Handler(m.service, arrived(ctx), func(into any) error { return clone(into, request) }, s.unary)
	if err != nil {
		return err
	}
	return share(reply, out)
}

func unknown(name string) error {
	return status.Errorf(codes.Unimplemented, "method %s is not served within the process", name)
}

// arrived is the context of a call as its handler has it.
func arrived(ctx context.Context) context.Context {
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		ctx = metadata.NewIncomingContext(ctx, md)
	}
	return metadata.NewOutgoingContext(ctx, nil) // a handler's own calls must not show what its caller has shown
}

// clone gives the handler a request of its own.
func clone(into, from any) error {
	a, b, err := messages(into, from)
	if err == nil {
		proto.Merge(a, b)
	}
	return err
}

// share gives the caller the fields of a response as they are.
func share(into, from any) error {
	a, b, err := messages(into, from)
	if err != nil {
		return err
	}
	m := a.ProtoReflect()
	b.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		m.Set(field, v)
		return true
	})
	return nil
}

func messages(a, b any) (proto.Message, proto.Message, error) {
	x, isX := a.(proto.Message)
	y, isY := b.(proto.Message)
	if !isX || !isY || x.ProtoReflect().Descriptor() != y.ProtoReflect().Descriptor() {
		return nil, nil, status.Error(codes.Internal, fmt.Sprintf("a call within the process mixes %T and %T", a, b))
	}
	return x, y, nil
}
