package wire

import (
	"encoding/binary"
	"net/netip"

	"google.golang.org/protobuf/encoding/protowire"

	"isthmus/federation"
)

// Field numbers of WeightedAddr and of the messages in it.
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

const weight = 10000

// appendAddr appends the fields of an endpoint's WeightedAddr, without the shared
// labels, which its message carries once for all.
func (e *Encoder) appendAddr(b []byte, ep *federation.Endpoint, shared []federation.Label) []byte {
	b = nested(b, addrAddr, func(b []byte) []byte { return appendTCP(b, ep.Addr) })
	w := uint64(weight)
	if e.options.ZoneWeights && e.local(ep) {
		w *= 10
	}
	b = appendNumber(b, addrWeight, w)
	b = e.appendLabels(b, ep, shared)
	return e.appendPeer(b, ep)
}

// appendPeer appends the fields of a WeightedAddr that describe how to connect to
// the endpoint: identity, protocol, HTTP/2 parameters, authority.
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

// meshed reports whether the endpoint gets protocol hints. A bare address with an
// identity is a Linkerd gateway's, which is meshed.
func meshed(ep *federation.Endpoint) bool {
	switch ep.Kind {
	case federation.Workload:
		return true
	case federation.Address:
		return identified(ep.Common.Get().Identity)
	}
	return ep.Meshed
}

// local reports whether client and endpoint are known to be in the same zone.
func (e *Encoder) local(ep *federation.Endpoint) bool { return e.zone != "" && zone(ep) == e.zone }

// zone is an endpoint's, for clients. Linkerd has none for bare addresses.
func zone(ep *federation.Endpoint) string {
	if ep.Kind == federation.Address {
		return ""
	}
	return ep.Zone
}

// appendHint appends the protocol hint of a meshed endpoint. A bare address gets
// none unless HTTP/2 is on. The others always get one, since an empty hint still
// means that the endpoint is meshed.
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
