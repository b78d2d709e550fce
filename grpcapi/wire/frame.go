package wire

import (
	"bytes"
	"slices"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Frame is one encoded message, which Codec hands to gRPC as it is. It is
// immutable, and may be sent by any number of streams at a time, any number of
// times. Its data may have parts that other frames share.
type Frame struct{ data mem.BufferSlice }

// Equal tells whether the two have the same parts. For one that they share it
// does not look at the bytes: bytes.Equal sees that they are in the same place.
func (f *Frame) Equal(o *Frame) bool {
	return slices.EqualFunc(f.data, o.data, func(a, b mem.Buffer) bool { return bytes.Equal(a.ReadOnlyData(), b.ReadOnlyData()) })
}

// Codec hands out frames as they are, and leaves everything else to gRPC's
// protobuf codec. A mem.SliceBuffer has no reference count, so that gRPC may
// free the same Frame again and again.
type Codec struct{ encoding.CodecV2 }

// NewCodec returns a Codec for grpc.ForceServerCodecV2.
func NewCodec() Codec { return Codec{encoding.GetCodecV2(proto.Name)} }

// Marshal implements encoding.CodecV2.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*Frame); ok {
		return f.data, nil
	}
	return c.CodecV2.Marshal(v)
}
