package grpcapi

import (
	"bytes"
	"slices"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// frame is one encoded message. It is immutable, and sent by any number of
// streams at a time. Its data may have parts that other frames share.
type frame struct{ data mem.BufferSlice }

// equal tells whether the two have the same parts. For one that they share it
// does not look at the bytes: bytes.Equal sees that they are in the same place.
func (f *frame) equal(o *frame) bool {
	return slices.EqualFunc(f.data, o.data, func(a, b mem.Buffer) bool { return bytes.Equal(a.ReadOnlyData(), b.ReadOnlyData()) })
}

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
