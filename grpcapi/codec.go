package grpcapi

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// frame is one encoded message. It is immutable, and sent by any number of
// streams at a time. Its data is one slice.
type frame struct{ data mem.BufferSlice }

// bytes are the message, not to be changed.
func (f *frame) bytes() []byte { return f.data[0].ReadOnlyData() }

// codec hands out frames as they are, and leaves everything else to gRPC's
// protobuf codec. A mem.SliceBuffer has no reference count, so that gRPC may
// free the same frame again and again.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		return f.data, nil
	}
	return c.CodecV2.Marshal(v)
}
