package wire

import (
	"encoding/binary"
	"net/netip"
	"slices"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
)

// Options configures how messages describe endpoints. With the zero value, all options are
// disabled.
type Options struct {
	H2Upgrade            bool                  // send the hint that meshed Pods accept HTTP/2
	ForceOpaqueTransport bool                  // make clients use the proxy's inbound port of each meshed endpoint
	ZoneWeights          bool                  // give endpoints in the client's zone ten times the weight
	TargetClusterLabel   bool                  // add the label target_cluster to endpoints of linked clusters
	MeshedHTTP2          *pb.Http2ClientParams // HTTP/2 parameters for meshed endpoints; nil means none
}

// Encoder encodes messages for the clients in one zone. An Encoder is immutable and safe for
// concurrent use.
type Encoder struct {
	zone    string           // the client's zone; empty if unknown
	tiers   federation.Tiers // zero for proxies (see Explaining)
	options Options
	http2   []byte // the encoded field of MeshedHTTP2; nil means none
}

// NewEncoder returns an Encoder for clients whose zone is unknown. If the HTTP/2 parameters cannot
// be encoded, NewEncoder returns an error. The caller may modify the HTTP/2 parameters after
// NewEncoder returns.
func NewEncoder(o Options) (Encoder, error) {
	e := Encoder{options: o}
	e.options.MeshedHTTP2 = nil
	if o.MeshedHTTP2 != nil {
		params, err := proto.Marshal(o.MeshedHTTP2)
		if err != nil {
			return e, err
		}
		e.http2 = protowire.AppendBytes(protowire.AppendTag(nil, addrHTTP2, protowire.BytesType), params)
	}
	return e, nil
}

// InZone returns an Encoder for clients in the given zone. An empty string means that the zone is
// unknown.
func (e Encoder) InZone(zone string) Encoder {
	e.zone = zone
	return e
}

// Explaining returns an Encoder for clients that request the tier of each endpoint. If clients do
// not receive all endpoints of the service, the labels isthmus_tier and isthmus_standing are added
// to each endpoint.
func (e Encoder) Explaining(t federation.Tiers) Encoder {
	e.tiers = t
	return e
}

// Full encodes the whole set. The result contains at least one message. On a new stream, the first
// message replaces all endpoints that the proxy has.
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

// Step encodes the difference between two sets. The messages first add new and changed endpoints,
// and then remove the endpoints that are only in the older set. If proxies cannot see any
// difference between the sets, Step returns no messages. If the last argument is true, Step adds
// all endpoints of the newer set, not only new and changed ones.
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

// Removal encodes only the removal of the endpoints that are missing from the newer set. If no
// endpoint is missing, the result is nil.
func (e *Encoder) Removal(from, to *federation.Set) []*Frame {
	if _, removed := federation.Diff(from, to); len(removed) > 0 {
		return remove(removed)
	}
	return nil
}

// The add method encodes an update that adds the given endpoints. The list must not be empty.
func (e *Encoder) add(list []*federation.Endpoint) []*Frame {
	return e.addSharing(e.sharedLabels(list), list, anyNumber)
}

// addSharing encodes endpoints. Each message contains the shared labels only once. If the endpoints
// need more messages than the limit allows, the result is nil.
func (e *Encoder) addSharing(shared []federation.Label, list []*federation.Endpoint, limit int) []*Frame {
	var head []byte
	for _, l := range shared {
		head = appendLabel(head, setLabels, l.Name, l.Value)
	}
	return pack(updateAdd, head, len(list), limit, func(b []byte, i int) []byte {
		return nested(b, setAddrs, func(b []byte) []byte { return e.appendAddr(b, list[i], shared) })
	})
}

// The remove function encodes the removal of the given addresses. The list must not be empty.
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

// appendAddr appends the fields of an endpoint's WeightedAddr, except for the labels that all
// endpoints in the message share.
func (e *Encoder) appendAddr(b []byte, ep *federation.Endpoint, shared []federation.Label) []byte {
	b = nested(b, addrAddr, func(b []byte) []byte { return appendTCP(b, ep.Addr) })
	w := uint64(weight)
	if e.options.ZoneWeights && e.sameZone(ep) {
		w *= 10
	}
	b = appendNumber(b, addrWeight, w)
	b = e.appendLabels(b, ep, shared)
	return e.appendPeer(b, ep)
}

func appendTCP(b []byte, addr netip.AddrPort) []byte {
	b = nested(b, tcpIP, func(b []byte) []byte {
		if ip := addr.Addr(); ip.Is4() {
			v4 := ip.As4()
			b = protowire.AppendTag(b, ipV4, protowire.Fixed32Type)
			return protowire.AppendFixed32(b, binary.BigEndian.Uint32(v4[:]))
		}
		v6 := addr.Addr().As16()
		return nested(b, ipV6, func(b []byte) []byte {
			b = protowire.AppendTag(b, v6First, protowire.Fixed64Type)
			b = protowire.AppendFixed64(b, binary.BigEndian.Uint64(v6[:8]))
			b = protowire.AppendTag(b, v6Last, protowire.Fixed64Type)
			return protowire.AppendFixed64(b, binary.BigEndian.Uint64(v6[8:]))
		})
	})
	return appendNumber(b, tcpPort, uint64(addr.Port()))
}

func (e *Encoder) appendPeer(b []byte, ep *federation.Endpoint) []byte {
	common := ep.Common.Get()
	b = appendIdentity(b, common.Identity)
	if meshed(ep) {
		b = e.appendHint(b, ep)
		b = append(b, e.http2...)
	}
	if common.Authority != "" {
		b = wrapped(b, addrAuthority, common.Authority)
	}
	return b
}

func appendIdentity(b []byte, id federation.Identity) []byte {
	if !identified(id) {
		return b
	}
	return nested(b, addrIdentity, func(b []byte) []byte {
		if id.DNS != "" {
			b = wrapped(b, identityDNS, id.DNS)
		} else {
			b = wrapped(b, identityURI, id.URI)
		}
		if id.ServerName != "" {
			b = wrapped(b, identityServer, id.ServerName)
		}
		return b
	})
}

func identified(id federation.Identity) bool { return id.DNS != "" || id.URI != "" }

// meshed reports whether to send protocol hints for the endpoint. An address with an identity but
// without a Pod or Workload belongs to a Linkerd gateway, which is meshed.
func meshed(ep *federation.Endpoint) bool {
	switch ep.Kind {
	case federation.Workload:
		return true
	case federation.Address:
		return identified(ep.Common.Get().Identity)
	}
	return ep.Meshed
}

// appendHint appends the protocol hint of a meshed endpoint. For a Pod or Workload, even an empty
// hint is sent, because the presence of a hint means that the endpoint is meshed. If HTTP/2 is
// disabled, no hint is sent for an address without a Pod or Workload.
func (e *Encoder) appendHint(b []byte, ep *federation.Endpoint) []byte {
	h2 := e.options.H2Upgrade || ep.Kind == federation.Workload
	if ep.Kind == federation.Address {
		if !h2 {
			return b
		}
		return nested(b, addrHint, func(b []byte) []byte { return appendEmpty(b, hintH2) })
	}
	return nested(b, addrHint, func(b []byte) []byte {
		switch {
		case ep.Opaque:
			b = appendEmpty(b, hintOpaque)
		case h2:
			b = appendEmpty(b, hintH2)
		}
		if ep.InboundPort != 0 && (e.options.ForceOpaqueTransport || ep.Opaque) {
			b = nested(b, hintTransport, func(b []byte) []byte {
				return appendNumber(b, onlyField, uint64(ep.InboundPort))
			})
		}
		return b
	})
}

func (e *Encoder) sameZone(ep *federation.Endpoint) bool { return e.zone != "" && zone(ep) == e.zone }

// zone returns the zone to send for an endpoint. As in Linkerd, addresses without a Pod or Workload
// have no zone.
func zone(ep *federation.Endpoint) string {
	if ep.Kind == federation.Address {
		return ""
	}
	return ep.Zone
}

const weight = 10000

// sharedLabels returns the labels that all endpoints in the list have in common, so that the
// message contains them only once. Sharing labels makes the messages for a typical Deployment a
// third smaller, because its endpoints differ only in name and locality.
//
// If the list contains only one endpoint, sharedLabels returns only the labels of the endpoint's
// slice, as in messages from Linkerd's controller.
func (e *Encoder) sharedLabels(list []*federation.Endpoint) []federation.Label {
	if len(list) == 1 {
		return list[0].Common.Get().Group
	}
	var room [labelRoom]federation.Label
	shared := slices.DeleteFunc(e.labels(nil, list[0]), ofAddress)
	for _, ep := range list[1:] {
		labels := e.labels(room[:0], ep)
		shared = slices.DeleteFunc(shared, func(l federation.Label) bool { return !slices.Contains(labels, l) })
	}
	return shared
}

func (e *Encoder) appendLabels(b []byte, ep *federation.Endpoint, shared []federation.Label) []byte {
	var room [labelRoom]federation.Label
	for _, l := range e.labels(room[:0], ep) {
		if !slices.Contains(shared, l) {
			b = appendLabel(b, addrLabels, l.Name, l.Value)
		}
	}
	return b
}

// labelRoom exceeds the number of labels that an endpoint usually has, so lists of labels rarely
// have to be reallocated.
const labelRoom = 16

// The labels method appends all labels of an endpoint to the given list. Label names are unique.
func (e *Encoder) labels(list []federation.Label, ep *federation.Endpoint) []federation.Label {
	group := ep.Common.Get().Group
	list = appendObjectLabels(append(list, group...), ep)
	if ep.Kind != federation.Address {
		list = append(list, federation.Label{Name: "zone", Value: ep.Zone})
	}
	list = append(list, federation.Label{Name: zoneLocality, Value: e.locality(ep)})
	if e.options.TargetClusterLabel && ep.Cluster != federation.Local && !slices.ContainsFunc(group, isTargetCluster) {
		list = append(list, federation.Label{Name: targetCluster, Value: string(ep.Cluster)})
	}
	return e.explain(list, ep)
}

func appendObjectLabels(list []federation.Label, ep *federation.Endpoint) []federation.Label {
	list = append(list, ep.Common.Get().Labels...)
	if name, ok := ep.NameLabel(); ok {
		list = append(list, name)
	}
	return list
}

const zoneLocality = "zone_locality"

func (e *Encoder) locality(ep *federation.Endpoint) string {
	switch {
	case e.zone == "" || zone(ep) == "":
		return "unknown"
	case ep.Zone == e.zone:
		return "local"
	}
	return "remote"
}

const targetCluster = "target_cluster"

func isTargetCluster(l federation.Label) bool { return l.Name == targetCluster }

// ofAddress reports whether a label must be sent with the address instead of being shared. The
// command "linkerd diagnostics endpoints" expects the endpoint's name among the labels of the
// address, and proxies expect zone_locality there.
//
// A label must be in the same place in every message: with the address, or among the shared labels.
// If a label moved between the address's own labels and the shared labels, proxies would treat the
// endpoint as changed and rebuild it.
func ofAddress(l federation.Label) bool {
	return l.Name == "pod" || l.Name == "external_workload" || l.Name == zoneLocality && l.Value != "unknown"
}

func (e *Encoder) explain(list []federation.Label, ep *federation.Endpoint) []federation.Label {
	tier, standing, ok := e.tiers.Of(ep, e.zone)
	if !ok {
		return list
	}
	return append(list,
		federation.Label{Name: "isthmus_tier", Value: shorten(tier)},
		federation.Label{Name: "isthmus_standing", Value: standing.String()},
	)
}

// maxTier is the maximum length of a tier's name in a label, in bytes. The length is limited
// because a tier's name may list many clusters, and because the label may be repeated for every
// endpoint.
const maxTier = 100

func shorten(name string) string {
	if len(name) <= maxTier {
		return name
	}
	return name[:maxTier] + "..."
}

func appendLabel(b []byte, field protowire.Number, name, value string) []byte {
	return nested(b, field, func(b []byte) []byte {
		return appendText(appendText(b, labelName, name), labelValue, value)
	})
}

// Profile encodes a profile as a single message. The Routing is used only if the destination is a
// service. If the destination has no profile, the message is empty.
func (e *Encoder) Profile(p *federation.Profile, r *Routing) *Frame {
	var parts mem.BufferSlice
	switch {
	case p.Endpoint != nil:
		parts = mem.BufferSlice{mem.SliceBuffer(e.endpointProfile(p.Endpoint))}
	case p.Reason == federation.Resolved:
		parts = mem.BufferSlice{r.data(), mem.SliceBuffer(marshal(serviceProfile(p)))}
	}
	return &Frame{parts}
}

// endpointProfile encodes the profile of an endpoint. As in Linkerd's controller, the zone label is
// always empty.
func (e *Encoder) endpointProfile(ep *federation.Endpoint) []byte {
	b := marshal(&pb.DestinationProfile{RetryBudget: retryBudget(defaultBudget()), OpaqueProtocol: ep.Opaque})
	return nested(b, profileEndpoint, func(b []byte) []byte {
		b = nested(b, addrAddr, func(b []byte) []byte { return appendTCP(b, ep.Addr) })
		b = appendNumber(b, addrWeight, weight)
		var room [labelRoom]federation.Label
		for _, l := range appendObjectLabels(room[:0], ep) {
			b = appendLabel(b, addrLabels, l.Name, l.Value)
		}
		if ep.Kind != federation.Address {
			b = appendLabel(b, addrLabels, "zone", "")
		}
		return e.appendPeer(b, ep)
	})
}
