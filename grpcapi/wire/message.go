package wire

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"isthmus/federation"
)

// Frame is an encoded message, which Codec passes to gRPC unchanged. A Frame is immutable, so any
// number of streams may send it at the same time. Frames may share parts of their data.
type Frame struct{ data mem.BufferSlice }

// Equal reports whether two frames consist of the same parts with the same bytes. Comparing shared
// parts is fast, because bytes.Equal compares their addresses first.
func (f *Frame) Equal(o *Frame) bool {
	return slices.EqualFunc(f.data, o.data, func(a, b mem.Buffer) bool {
		return bytes.Equal(a.ReadOnlyData(), b.ReadOnlyData())
	})
}

// Size returns the size of the message in bytes.
func (f *Frame) Size() int { return f.data.Len() }

// Codec passes the bytes of Frames to gRPC, and uses gRPC's protobuf codec for all other messages.
// Because the buffers of a Frame are not reference-counted, gRPC may free the same Frame any number
// of times.
type Codec struct{ encoding.CodecV2 }

// NewCodec returns a Codec for grpc.ForceServerCodecV2.
func NewCodec() Codec { return Codec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal implements encoding.CodecV2.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*Frame); ok {
		return f.data, nil
	}
	return c.CodecV2.Marshal(v)
}

// maxMessage is slightly less than the maximum size of a message that proxies accept. Proxies
// reject messages larger than 4 MiB, which is the default limit of their gRPC library, tonic.
const maxMessage = 4<<20 - 16<<10

// maxBody is the maximum size of the contents of an Update's only field. The tag of the field takes
// one byte, and the length prefix takes at most four bytes for lengths below 1<<28.
const maxBody = maxMessage - 5

var scratch = sync.Pool{New: func() any { return new([]byte) }}

const anyNumber = math.MaxInt

// pack encodes n items in as few Updates as maxMessage allows. Each Update begins with the bytes of
// the head argument and is as full as possible. The last argument is a function that appends the
// item at index i. If the items need more messages than the limit allows, the result is nil.
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

func newFrame(field protowire.Number, body []byte) *Frame {
	size := protowire.SizeTag(field) + protowire.SizeBytes(len(body))
	b := protowire.AppendTag(make([]byte, 0, size), field, protowire.BytesType)
	return &Frame{mem.BufferSlice{mem.SliceBuffer(protowire.AppendBytes(b, body))}}
}

// If a set of endpoints is too large for one message, the spread function orders the endpoints so
// that the first message contains a proportional share of the endpoints in each cluster and zone.
// When a proxy reconnects, the first message replaces all endpoints that the proxy has. Until the
// second message arrives, the proxy uses only the endpoints in the first message.
//
// The order depends only on the addresses, so that all streams and replicas begin with the same
// endpoints.
func spread(list []*federation.Endpoint) []*federation.Endpoint {
	all := make([]placed, len(list))
	for i, ep := range list {
		all[i] = placed{ep: ep, hash: hashAddr(ep)}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.hash, b.hash), a.ep.Addr.Compare(b.ep.Addr))
	})
	interleave(all, func(ep *federation.Endpoint) clusterZone { return clusterZone{ep.Cluster, ep.Zone} })
	interleave(all, func(ep *federation.Endpoint) federation.ClusterName { return ep.Cluster })
	order := make([]*federation.Endpoint, len(all))
	for i, p := range all {
		order[i] = p.ep
	}
	return order
}

type placed struct {
	ep       *federation.Endpoint
	hash     uint64
	position float64 // from 0 for the first endpoint to just below 1 for the last
}

type clusterZone struct {
	cluster federation.ClusterName
	zone    string
}

// interleave mixes the endpoints of all groups in proportion to the sizes of the groups. The order
// within each group is preserved.
func interleave[K comparable](all []placed, group func(*federation.Endpoint) K) {
	size := make(map[K]int)
	rank := make(map[K]int)
	for _, p := range all {
		size[group(p.ep)]++
	}
	for i := range all {
		k := group(all[i].ep)
		all[i].position = float64(rank[k]) / float64(size[k])
		rank[k]++
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.position, b.position) })
}

func hashAddr(ep *federation.Endpoint) uint64 {
	ip := ep.Addr.Addr().As16()
	h := fnv.New64a()
	h.Write(binary.BigEndian.AppendUint16(ip[:], ep.Addr.Port()))
	return h.Sum64()
}

// The following constants are the field numbers of Update and of the messages inside an Update.
const (
	updateAdd         protowire.Number = 1
	updateRemove      protowire.Number = 2
	updateNoEndpoints protowire.Number = 3

	setAddrs  protowire.Number = 1 // of WeightedAddrSet and AddrSet
	setLabels protowire.Number = 2

	noEndpointsExists protowire.Number = 1
)

// The following constants are the field numbers of WeightedAddr and of the messages inside a
// WeightedAddr.
const (
	addrAddr      protowire.Number = 1
	addrWeight    protowire.Number = 3
	addrLabels    protowire.Number = 4
	addrIdentity  protowire.Number = 5
	addrHint      protowire.Number = 6
	addrAuthority protowire.Number = 7
	addrHTTP2     protowire.Number = 8

	identityDNS    protowire.Number = 1
	identityURI    protowire.Number = 3
	identityServer protowire.Number = 4

	hintH2        protowire.Number = 1
	hintTransport protowire.Number = 2
	hintOpaque    protowire.Number = 3

	tcpIP   protowire.Number = 1
	tcpPort protowire.Number = 2
	ipV4    protowire.Number = 1
	ipV6    protowire.Number = 2
	v6First protowire.Number = 1
	v6Last  protowire.Number = 2
)

// The following constants are the field numbers of entries in metric_labels.
const (
	labelName  protowire.Number = 1
	labelValue protowire.Number = 2
)

// profileEndpoint is the number of the endpoint field in DestinationProfile. Like the fields of an
// Update, the endpoint field is encoded without the generated code.
const profileEndpoint protowire.Number = 6

// onlyField is the number of the only field in a message that wraps a single value.
const onlyField protowire.Number = 1

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
	b = append(b, length[1:]...) // make room to move the body
	copy(b[start+len(length):], b[start+1:start+1+n])
	copy(b[start:], length)
	return b
}

func wrapped(b []byte, field protowire.Number, s string) []byte {
	return nested(b, field, func(b []byte) []byte { return appendText(b, onlyField, s) })
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, validUTF8(s))
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func appendEmpty(b []byte, field protowire.Number) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), 0)
}

// validUTF8 replaces invalid UTF-8 in s, because proxies would reject it.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
