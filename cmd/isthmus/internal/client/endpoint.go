package client

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"isthmus/internal/adminapi"
)

// endpoint is what a proxy knows about one address.
type endpoint struct {
	adminapi.Endpoint
	size int // in bytes, as it was sent, with the labels of its message
}

// decodeEndpoint returns the endpoint of one address of an add. setLabels are the
// labels of the whole add; the address's own replace those of the same name.
func decodeEndpoint(w *pb.WeightedAddr, setLabels map[string]string) (endpoint, error) {
	addr, err := decodeAddress(w.GetAddr())
	if err != nil {
		return endpoint{}, err
	}
	if len(setLabels)+len(w.GetMetricLabels()) > maxLabels {
		return endpoint{}, fmt.Errorf("endpoint %v with more than %d labels", addr, maxLabels)
	}
	e := endpoint{adminapi.Endpoint{
		Address:     addr,
		Weight:      w.GetWeight(),
		Labels:      make(map[string]string),
		InboundPort: w.GetProtocolHint().GetOpaqueTransport().GetInboundPort(),
		Authority:   w.GetAuthorityOverride().GetAuthorityOverride(),
	}, proto.Size(w)}
	for name, value := range setLabels {
		e.Labels[name], e.size = value, e.size+len(name)+len(value)
	}
	maps.Copy(e.Labels, w.GetMetricLabels())
	e.Tier, e.Standing = e.takeLabel("isthmus_tier"), e.takeLabel("isthmus_standing")
	if t := w.GetTlsIdentity(); t != nil {
		e.Identity = &adminapi.PeerIdentity{
			DNS:        t.GetDnsLikeIdentity().GetName(),
			URI:        t.GetUriLikeIdentity().GetUri(),
			ServerName: t.GetServerName().GetName(),
		}
	}
	switch w.GetProtocolHint().GetProtocol().(type) {
	case *pb.ProtocolHint_H2_:
		e.Protocol = "h2"
	case *pb.ProtocolHint_Opaque_:
		e.Protocol = "opaque"
	}
	if w.GetHttp2() != nil {
		if e.HTTP2, err = protojson.Marshal(w.GetHttp2()); err != nil {
			return endpoint{}, fmt.Errorf("HTTP/2 parameters of %v: %w", addr, err)
		}
	}
	return e, nil
}

// takeLabel removes a label, which proxies do not get, and returns its value.
func (e endpoint) takeLabel(name string) string {
	value := e.Labels[name]
	delete(e.Labels, name)
	return value
}

func decodeAddress(a *pbnet.TcpAddress) (netip.AddrPort, error) {
	if a.GetPort() == 0 || a.GetPort() > 65535 {
		return netip.AddrPort{}, fmt.Errorf("an address with port %d", a.GetPort())
	}
	var ip netip.Addr
	switch x := a.GetIp().GetIp().(type) {
	case *pbnet.IPAddress_Ipv4:
		ip = netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, x.Ipv4)))
	case *pbnet.IPAddress_Ipv6:
		b := binary.BigEndian.AppendUint64(nil, x.Ipv6.GetFirst())
		ip = netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(b, x.Ipv6.GetLast())))
	default:
		return netip.AddrPort{}, errors.New("an address without IP")
	}
	return netip.AddrPortFrom(ip, uint16(a.GetPort())), nil
}

// What follows are the columns of the table, empty for what was not sent.

// clusterOf is the label target_cluster, which a gateway gives to endpoints of
// linked clusters unless it runs with --target-cluster-label=false.
func clusterOf(e *adminapi.Endpoint) string { return cmp.Or(e.Labels["target_cluster"], "local") }

// zoneOf is the endpoint's zone, and whether the client is in the same.
func zoneOf(e *adminapi.Endpoint) string {
	locality := e.Labels["zone_locality"]
	if zone := e.Labels["zone"]; zone == "" || locality == "" || locality == "unknown" {
		return zone
	}
	return e.Labels["zone"] + " (" + locality + ")"
}

func hintsOf(e *adminapi.Endpoint) string {
	port, authority := "", ""
	if e.InboundPort != 0 {
		port = fmt.Sprintf("via:%d", e.InboundPort)
	}
	if e.Authority != "" {
		authority = "authority:" + e.Authority
	}
	return joined(",", e.Protocol, port, authority)
}

func podOf(e *adminapi.Endpoint) string {
	return cmp.Or(e.Labels["pod"], e.Labels["external_workload"])
}

// peerOf is the identity that the endpoint's TLS certificate must have.
func peerOf(e *adminapi.Endpoint) string {
	if e.Identity == nil {
		return ""
	}
	return cmp.Or(e.Identity.DNS, e.Identity.URI)
}
