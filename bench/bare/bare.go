package bare

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// Method is the lookup that the servers answer.
const Method = "/iq.v1.QueryService/Get"

// Frame is one message as bytes.
type Frame struct{ Bytes []byte }

// Codec passes a [*Frame] through. It goes by the name of the usual codec, because it speaks the same wire.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name is the content subtype.
func (Codec) Name() string { return "proto" }

// Marshal gives the frame's bytes, which must not change any more.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*Frame)
	if !ok {
		return nil, fmt.Errorf("message is a %T, want *bare.Frame", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.Bytes)}, nil
}

// Unmarshal copies the bytes into the frame, into its old ones if they are large enough.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*Frame)
	if !ok {
		return fmt.Errorf("message is a %T, want *bare.Frame", v)
	}
	n := data.Len()
	if cap(f.Bytes) < n {
		f.Bytes = make([]byte, n)
	}
	f.Bytes = f.Bytes[:n]
	data.CopyTo(f.Bytes)
	return nil
}

// Echo answers every lookup at the address with the same reply until ctx ends.
func Echo(ctx context.Context, address string, reply []byte) error {
	return serve(ctx, address, func(context.Context, *Frame) (*Frame, error) { return &Frame{Bytes: reply}, nil })
}

// Proxy passes every lookup at the address on to another server until ctx ends.
func Proxy(ctx context.Context, address, to string) error {
	cc, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec{})))
	if err != nil {
		return err
	}
	defer cc.Close() //nolint:errcheck // nothing is lost
	return serve(ctx, address, func(ctx context.Context, in *Frame) (*Frame, error) {
		out := new(Frame)
		return out, cc.Invoke(ctx, Method, in, out)
	})
}

// serve answers lookups by a function.
func serve(ctx context.Context, address string, answer func(context.Context, *Frame) (*Frame, error)) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(Codec{}))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "iq.v1.QueryService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Get", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(Frame)
			if err := decode(in); err != nil {
				return nil, err
			}
			return answer(ctx, in)
		}}},
	}, struct{}{})
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	return s.Serve(l)
}
