package wire

import (
	"bytes"
	"slices"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Frame is one encoded message, which Codec passes to gRPC unchanged. It is
// immutable, and may be sent by any number of streams at the same time, any number
// of times. Parts of its data may be shared with other frames.
type Frame struct{ data mem.BufferSlice }

// Equal reports whether the two have the same parts with the same bytes. A part that
// they share is not compared byte by byte: bytes.Equal compares addresses first.
func (f *Frame) Equal(o *Frame) bool {
	return slices.EqualFunc(f.data, o.data, func(a, b mem.Buffer) bool { return bytes.Equal(a.ReadOnlyData(), b.ReadOnlyData()) })
}

// Size is the number of the message's bytes.
func (f *Frame) Size() int { return f.data.Len() }

// Codec returns the bytes of Frames, and leaves all other messages to gRPC's
// protobuf codec. A Frame's mem.SliceBuffers have no reference count, so gRPC may
// free the same Frame any number of times.
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
