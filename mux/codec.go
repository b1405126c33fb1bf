package mux

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Frame is one message as bytes.
type Frame struct{ Bytes []byte }

// Codec passes a *Frame through as it is, and everything else to gRPC's codec for protocol buffers. It goes by that one's
// name, because it speaks the same wire: a server that is forced to it serves any client.
type Codec struct{}

var (
	_     encoding.CodecV2 = Codec{}
	plain                  = encoding.GetCodecV2(proto.Name)
)

// Name implements encoding.CodecV2.
func (Codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2. The bytes of a frame must not change any more: gRPC keeps them until they are written.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*Frame); ok {
		return mem.BufferSlice{mem.SliceBuffer(f.Bytes)}, nil
	}
	return plain.Marshal(v)
}

// Unmarshal implements encoding.CodecV2. A frame gets bytes of its own.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*Frame); ok {
		f.Bytes = data.Materialize()
		return nil
	}
	return plain.Unmarshal(data, v)
}
