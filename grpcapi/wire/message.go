package wire

import (
	"math"
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

// Full encodes a set's first messages, of which there is at least one. The first
// of them replaces all that the proxy has.
func (e *Encoder) Full(s *federation.Set) []*Frame {
	if len(s.Endpoints) == 0 {
		return []*Frame{noEndpoints(s.Exists)}
	}
	shared := e.sharedLabels(s.Endpoints)
	if frames := e.addSharing(shared, s.Endpoints, 1); frames != nil {
		return frames
	}
	return e.addSharing(shared, spread(s.Endpoints), anyNumber)
}

// Step encodes what leads a proxy from one set to another; nothing, where it
// sees no difference. What is new or has changed comes before what is gone. With
// all, the endpoints that are in both count as changed.
func (e *Encoder) Step(from, to *federation.Set, all bool) []*Frame {
	if len(to.Endpoints) == 0 {
		if len(from.Endpoints) == 0 && from.Exists == to.Exists {
			return nil
		}
		return []*Frame{noEndpoints(to.Exists)}
	}
	put, gone := federation.Diff(from, to)
	if all {
		put = to.Endpoints
	}
	var frames []*Frame
	if len(put) > 0 {
		frames = e.add(put)
	}
	if len(gone) > 0 {
		frames = append(frames, remove(gone)...)
	}
	return frames
}

// add encodes endpoints, of which there is at least one.
func (e *Encoder) add(list []*federation.Endpoint) []*Frame {
	return e.addSharing(e.sharedLabels(list), list, anyNumber)
}

// addSharing encodes endpoints that have those labels, in at most that many
// messages; nil: they take more.
func (e *Encoder) addSharing(shared []federation.Label, list []*federation.Endpoint, most int) []*Frame {
	var head []byte
	for _, l := range shared {
		head = appendLabel(head, setLabels, l.Name, l.Value)
	}
	return pack(updateAdd, head, len(list), most, func(b []byte, i int) []byte {
		return nested(b, setAddrs, func(b []byte) []byte { return e.appendAddr(b, list[i], shared) })
	})
}

// remove encodes the removal of addresses, of which there is at least one.
func remove(addrs []netip.AddrPort) []*Frame {
	return pack(updateRemove, nil, len(addrs), anyNumber, func(b []byte, i int) []byte {
		return nested(b, setAddrs, func(b []byte) []byte { return appendTCP(b, addrs[i]) })
	})
}

func noEndpoints(exists bool) *Frame {
	var body []byte
	if exists {
		body = protowire.AppendTag(body, noEndpointsExists, protowire.VarintType)
		body = protowire.AppendVarint(body, 1)
	}
	return newFrame(updateNoEndpoints, body)
}

// scratch are buffers for messages in the making.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// anyNumber of messages is more than memory has room for.
const anyNumber = math.MaxInt

// pack puts n items into as few Updates as maxMessage allows, each as full as
// possible and each beginning with head; nil: into more than most. item appends the
// item at i.
func pack(field protowire.Number, head []byte, n, most int, item func(b []byte, i int) []byte) []*Frame {
	var frames []*Frame
	buffer := scratch.Get().(*[]byte)
	defer scratch.Put(buffer)
	body := append(slices.Grow((*buffer)[:0], len(head)+min(n*256, maxMessage)), head...)
	defer func() { *buffer = body }()
	for i := range n {
		before := len(body)
		body = item(body, i)
		if len(body) > maxBody && before > len(head) {
			if len(frames)+1 == most {
				return nil
			}
			frames = append(frames, newFrame(field, body[:before]))
			body = append(body[:len(head)], body[before:]...)
		}
	}
	return append(frames, newFrame(field, body)) // a copy
}

// newFrame is the Update with that one field. It copies body.
func newFrame(field protowire.Number, body []byte) *Frame {
	size := protowire.SizeTag(field) + protowire.SizeBytes(len(body))
	b := protowire.AppendTag(make([]byte, 0, size), field, protowire.BytesType)
	return &Frame{mem.BufferSlice{mem.SliceBuffer(protowire.AppendBytes(b, body))}}
}
