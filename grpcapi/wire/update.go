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

// Field numbers of Update and of the messages in it.
const (
	updateAdd         protowire.Number = 1
	updateRemove      protowire.Number = 2
	updateNoEndpoints protowire.Number = 3

	setAddrs  protowire.Number = 1 // of WeightedAddrSet and AddrSet
	setLabels protowire.Number = 2

	noEndpointsExists protowire.Number = 1
)

// maxMessage is how large a message may be, with some room to spare. Proxies reject
// messages above 4 MiB, the default limit of tonic, their gRPC library.
const maxMessage = 4<<20 - 16<<10

// maxBody leaves room for the tag and the length (below 1<<28: four bytes) of
// the one field of an Update.
const maxBody = maxMessage - 5

// Full encodes the messages for a proxy that has nothing of the set: at least one.
// On a new stream, the first of them replaces everything that the proxy has.
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

// Step encodes the step from one set to another: adds of what is new or has changed,
// then removes. It returns no messages if proxies see no difference. With all it adds
// every endpoint of the newer set, changed or not.
func (e *Encoder) Step(from, to *federation.Set, all bool) []*Frame {
	if len(to.Endpoints) == 0 {
		if len(from.Endpoints) == 0 && from.Exists == to.Exists {
			return nil
		}
		return []*Frame{noEndpoints(to.Exists)}
	}
	added, removed := federation.Diff(from, to)
	if all {
		added = to.Endpoints
	}
	var frames []*Frame
	if len(added) > 0 {
		frames = e.add(added)
	}
	if len(removed) > 0 {
		frames = append(frames, remove(removed)...)
	}
	return frames
}

// Removal encodes the removes of a step: none, if nothing goes.
func (e *Encoder) Removal(from, to *federation.Set) []*Frame {
	if _, removed := federation.Diff(from, to); len(removed) > 0 {
		return remove(removed)
	}
	return nil
}

// add encodes one or more endpoints.
func (e *Encoder) add(list []*federation.Endpoint) []*Frame {
	return e.addSharing(e.sharedLabels(list), list, anyNumber)
}

// addSharing encodes endpoints that have the shared labels in common. It returns nil
// if that takes more messages than limit.
func (e *Encoder) addSharing(shared []federation.Label, list []*federation.Endpoint, limit int) []*Frame {
	var head []byte
	for _, l := range shared {
		head = appendLabel(head, setLabels, l.Name, l.Value)
	}
	return pack(updateAdd, head, len(list), limit, func(b []byte, i int) []byte {
		return nested(b, setAddrs, func(b []byte) []byte { return e.appendAddr(b, list[i], shared) })
	})
}

// remove encodes the removal of one or more addresses.
func remove(addrs []netip.AddrPort) []*Frame {
	return pack(updateRemove, nil, len(addrs), anyNumber, func(b []byte, i int) []byte {
		return nested(b, setAddrs, func(b []byte) []byte { return appendTCP(b, addrs[i]) })
	})
}

// noEndpoints encodes that a service has no endpoints.
func noEndpoints(exists bool) *Frame {
	var body []byte
	if exists {
		body = protowire.AppendTag(body, noEndpointsExists, protowire.VarintType)
		body = protowire.AppendVarint(body, 1)
	}
	return newFrame(updateNoEndpoints, body)
}

// scratch holds buffers for messages that are being encoded.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// anyNumber means no limit on the number of messages.
const anyNumber = math.MaxInt

// pack puts n items into as few Updates as maxMessage allows, each as full as
// possible, and each with head at its beginning. item appends the item at i. It
// returns nil if that takes more messages than limit.
func pack(field protowire.Number, head []byte, n, limit int, item func(b []byte, i int) []byte) []*Frame {
	var frames []*Frame
	buffer := scratch.Get().(*[]byte)
	defer scratch.Put(buffer)
	body := append(slices.Grow((*buffer)[:0], len(head)+min(n*256, maxMessage)), head...)
	defer func() { *buffer = body }()
	for i := range n {
		before := len(body)
		body = item(body, i)
		if len(body) > maxBody && before > len(head) {
			if len(frames)+1 == limit {
				return nil
			}
			frames = append(frames, newFrame(field, body[:before]))
			body = append(body[:len(head)], body[before:]...)
		}
	}
	return append(frames, newFrame(field, body))
}

// newFrame returns the Update with one field. It copies body.
func newFrame(field protowire.Number, body []byte) *Frame {
	size := protowire.SizeTag(field) + protowire.SizeBytes(len(body))
	b := protowire.AppendTag(make([]byte, 0, size), field, protowire.BytesType)
	return &Frame{mem.BufferSlice{mem.SliceBuffer(protowire.AppendBytes(b, body))}}
}
