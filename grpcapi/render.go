package grpcapi

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"isthmus/federation"
)

// Fields of WeightedAddr, and of the messages that it is made of.
const (
	addrAddr      protowire.Number = 1
	addrWeight    protowire.Number = 3
	addrLabels    protowire.Number = 4
	addrIdentity  protowire.Number = 5
	addrHint      protowire.Number = 6
	addrAuthority protowire.Number = 7
	addrHTTP2     protowire.Number = 8

	labelName  protowire.Number = 1
	labelValue protowire.Number = 2

	identityDNS    protowire.Number = 1
	identityURI    protowire.Number = 3
	identityServer protowire.Number = 4
	onlyField      protowire.Number = 1 // of the messages that wrap one value

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

const weight = 10000

// encoder renders endpoints for clients of one zone. It is immutable.
type encoder struct {
	zone                 string // the client's; empty: unknown
	h2Upgrade            bool
	forceOpaqueTransport bool
	zoneWeights          bool
	targetCluster        bool
	http2                []byte // the encoded field; nil: none
}

// newEncoder renders for clients whose zone is not known.
func newEncoder(o Options) (encoder, error) {
	e := encoder{
		h2Upgrade:            o.H2Upgrade,
		forceOpaqueTransport: o.ForceOpaqueTransport,
		zoneWeights:          o.ZoneWeights,
		targetCluster:        o.TargetClusterLabel,
	}
	if o.MeshedHTTP2 != nil {
		params, err := proto.Marshal((*pb.Http2ClientParams)(o.MeshedHTTP2))
		if err != nil {
			return e, err
		}
		e.http2 = protowire.AppendBytes(protowire.AppendTag(nil, addrHTTP2, protowire.BytesType), params)
	}
	return e, nil
}

// appendAddr appends an endpoint's WeightedAddr, without the labels that its
// message carries for all.
func (e *encoder) appendAddr(b []byte, ep *federation.Endpoint, shared []federation.Label) []byte {
	b = nested(b, addrAddr, func(b []byte) []byte { return appendTCP(b, ep.Addr) })
	w := uint64(weight)
	if e.zoneWeights && e.local(ep) {
		w *= 10
	}
	b = appendNumber(b, addrWeight, w)
	b = e.appendLabels(b, ep, shared)
	return e.appendPeer(b, ep)
}

// appendPeer appends the fields of a WeightedAddr that say how to talk to what
// is behind the address.
func (e *encoder) appendPeer(b []byte, ep *federation.Endpoint) []byte {
	b = appendIdentity(b, ep.Identity)
	if meshed(ep) {
		b = e.appendHint(b, ep)
		b = append(b, e.http2...)
	}
	if ep.Authority != "" {
		b = wrapped(b, addrAuthority, ep.Authority)
	}
	return b
}

// meshed tells whether a Linkerd proxy takes the endpoint's traffic, as far as
// hints are concerned. Behind a bare address with an identity is a gateway.
func meshed(ep *federation.Endpoint) bool {
	switch ep.Kind {
	case federation.Workload:
		return true
	case federation.Address:
		return identified(ep.Identity)
	}
	return ep.Meshed
}

// local tells whether client and endpoint are known to be in one zone.
func (e *encoder) local(ep *federation.Endpoint) bool { return e.zone != "" && ep.Zone == e.zone }

// locality is the label zone_locality.
func (e *encoder) locality(ep *federation.Endpoint) string {
	switch {
	case e.zone == "" || ep.Zone == "":
		return "unknown"
	case ep.Zone == e.zone:
		return "local"
	}
	return "remote"
}

// appendLabels appends those of an endpoint's labels that are not shared.
func (e *encoder) appendLabels(b []byte, ep *federation.Endpoint, shared []federation.Label) []byte {
	var room [labelRoom]federation.Label
	for _, l := range e.labels(room[:0], ep) {
		if !slices.Contains(shared, l) {
			b = appendLabel(b, addrLabels, l.Name, l.Value)
		}
	}
	return b
}

// labelRoom is more than the labels that endpoints usually have.
const labelRoom = 16

// labels appends all labels of an endpoint. No two have the same name.
func (e *encoder) labels(list []federation.Label, ep *federation.Endpoint) []federation.Label {
	list = append(append(list, ep.Group...), ep.Labels...)
	if ep.Kind != federation.Address {
		list = append(list, federation.Label{Name: "zone", Value: ep.Zone})
	}
	list = append(list, federation.Label{Name: "zone_locality", Value: e.locality(ep)})
	if e.targetCluster && ep.Cluster != federation.Local && !slices.ContainsFunc(ep.Group, isTargetCluster) {
		list = append(list, federation.Label{Name: targetCluster, Value: string(ep.Cluster)})
	}
	return list
}

// identifies tells whether a label says which endpoint it is, and so stands on its
// address, where "linkerd diagnostics endpoints" looks for it.
func identifies(l federation.Label) bool { return l.Name == "pod" || l.Name == "external_workload" }

const targetCluster = "target_cluster"

func isTargetCluster(l federation.Label) bool { return l.Name == targetCluster }

// sharedLabels are the labels that all endpoints of the list have. Their message
// carries them once. A lone endpoint shares the labels of its slice only.
func (e *encoder) sharedLabels(list []*federation.Endpoint) []federation.Label {
	if len(list) == 1 {
		return list[0].Group
	}
	var room [labelRoom]federation.Label
	shared := slices.DeleteFunc(e.labels(nil, list[0]), identifies)
	for _, ep := range list[1:] {
		labels := e.labels(room[:0], ep)
		shared = slices.DeleteFunc(shared, func(l federation.Label) bool { return !slices.Contains(labels, l) })
	}
	return shared
}

// appendHint appends what an endpoint behind a proxy says about its protocol. A
// bare address says nothing unless HTTP/2 is on; for the others an empty hint
// means that there is a proxy.
func (e *encoder) appendHint(b []byte, ep *federation.Endpoint) []byte {
	h2 := e.h2Upgrade || ep.Kind == federation.Workload
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
		if ep.InboundPort != 0 && (e.forceOpaqueTransport || ep.Opaque) {
			b = nested(b, hintTransport, func(b []byte) []byte {
				return appendNumber(b, onlyField, uint64(ep.InboundPort))
			})
		}
		return b
	})
}

func identified(id federation.Identity) bool { return id.DNS != "" || id.URI != "" }

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

// appendTCP appends the fields of a TcpAddress.
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

func appendLabel(b []byte, field protowire.Number, name, value string) []byte {
	return nested(b, field, func(b []byte) []byte {
		return appendText(appendText(b, labelName, name), labelValue, value)
	})
}

// wrapped appends a message that holds nothing but a text.
func wrapped(b []byte, field protowire.Number, s string) []byte {
	return nested(b, field, func(b []byte) []byte { return appendText(b, onlyField, s) })
}

// appendText appends a string, which proxies only take as valid UTF-8.
func appendText(b []byte, field protowire.Number, s string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, strings.ToValidUTF8(s, "\uFFFD"))
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func appendEmpty(b []byte, field protowire.Number) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), 0)
}
