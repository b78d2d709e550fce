package grpcapi

import (
	"net/netip"
	"slices"
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"isthmus/federation"
)

// Fields of Update, and of the messages that it is made of.
const (
	updateAdd         protowire.Number = 1
	updateRemove      protowire.Number = 2
	updateNoEndpoints protowire.Number = 3

	setAddrs  protowire.Number = 1 // of WeightedAddrSet and AddrSet
	setLabels protowire.Number = 2

	noEndpointsExists protowire.Number = 1
)

// maxMessage is how large a message may be. Proxies refuse more than 4 MiB, the
// default limit of tonic, their gRPC library.
const maxMessage = 4<<20 - 16<<10

// maxBody leaves room for the tag and the length (below 1<<28: four bytes) of
// the one field of an Update.
const maxBody = maxMessage - 5

// full encodes a set's first messages. The first of them replaces all that the
// proxy has.
func (e *encoder) full(s *federation.Set) []*frame {
	if len(s.Endpoints) == 0 {
		return []*frame{noEndpoints(s.Exists)}
	}
	if frames := e.add(s.Endpoints); len(frames) == 1 {
		return frames
	}
	return e.add(spread(s.Endpoints))
}

// step encodes what leads a proxy from one set to another; nothing, where it
// sees no difference. With all, the endpoints that are in both count as changed.
func (e *encoder) step(from, to *federation.Set, all bool) []*frame {
	if len(to.Endpoints) == 0 {
		if len(from.Endpoints) == 0 && from.Exists == to.Exists {
			return nil
		}
		return []*frame{noEndpoints(to.Exists)}
	}
	put, gone := federation.Diff(from, to)
	if all {
		put = to.Endpoints
	}
	var frames []*frame
	if len(put) > 0 {
		frames = e.add(put)
	}
	if len(gone) > 0 {
		frames = append(frames, remove(gone)...)
	}
	return frames
}

// add encodes endpoints, of which there is at least one.
func (e *encoder) add(list []*federation.Endpoint) []*frame {
	shared := e.sharedLabels(list)
	var head []byte
	for _, l := range shared {
		head = appendLabel(head, setLabels, l.Name, l.Value)
	}
	return pack(updateAdd, head, len(list), func(b []byte, i int) []byte {
		return nested(b, setAddrs, func(b []byte) []byte { return e.appendAddr(b, list[i], shared) })
	})
}

// remove encodes the removal of addresses, of which there is at least one.
func remove(addrs []netip.AddrPort) []*frame {
	return pack(updateRemove, nil, len(addrs), func(b []byte, i int) []byte {
		return nested(b, setAddrs, func(b []byte) []byte { return appendTCP(b, addrs[i]) })
	})
}

func noEndpoints(exists bool) *frame {
	var body []byte
	if exists {
		body = protowire.AppendTag(body, noEndpointsExists, protowire.VarintType)
		body = protowire.AppendVarint(body, 1)
	}
	return newFrame(updateNoEndpoints, body)
}

// scratch are buffers for messages in the making.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// pack puts n items into as few Updates as maxMessage allows, each as full as
// possible and each beginning with head. item appends the item at i.
func pack(field protowire.Number, head []byte, n int, item func(b []byte, i int) []byte) []*frame {
	var frames []*frame
	buffer := scratch.Get().(*[]byte)
	body := append(slices.Grow((*buffer)[:0], len(head)+min(n*256, maxMessage)), head...)
	for i := range n {
		before := len(body)
		body = item(body, i)
		if len(body) > maxBody && before > len(head) {
			frames = append(frames, newFrame(field, body[:before]))
			body = append(body[:len(head)], body[before:]...)
		}
	}
	frames = append(frames, newFrame(field, body)) // a copy
	*buffer = body
	scratch.Put(buffer)
	return frames
}

// newFrame is the Update with that one field. It copies body.
func newFrame(field protowire.Number, body []byte) *frame {
	size := protowire.SizeTag(field) + protowire.SizeBytes(len(body))
	b := protowire.AppendTag(make([]byte, 0, size), field, protowire.BytesType)
	return &frame{mem.BufferSlice{mem.SliceBuffer(protowire.AppendBytes(b, body))}}
}

// nested appends a field that is itself a message, whose fields body appends.
func nested(b []byte, field protowire.Number, body func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	start := len(b)
	b = body(append(b, 0)) // most lengths take one byte
	n := len(b) - start - 1
	if n < 0x80 {
		b[start] = byte(n)
		return b
	}
	var buf [10]byte
	length := protowire.AppendVarint(buf[:0], uint64(n))
	b = append(b, length[1:]...) // room, to move the body into
	copy(b[start+len(length):], b[start+1:start+1+n])
	copy(b[start:], length)
	return b
}
