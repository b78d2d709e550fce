package commands

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func messageJSON(m proto.Message) (json.RawMessage, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	return json.Marshal(json.RawMessage(text)) // remove the spaces that protobuf inserts at random
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

// clusterOf returns the value of the endpoint's target_cluster label, or "local" if the endpoint
// lacks this label. A replica sets target_cluster on endpoints in linked clusters, unless the
// replica runs with --target-cluster-label=false.
func clusterOf(w *pb.WeightedAddr) string {
	return cmp.Or(w.GetMetricLabels()["target_cluster"], "local")
}

// zoneOf returns the endpoint's zone, and whether the client is in the same zone.
func zoneOf(w *pb.WeightedAddr) string {
	zone, locality := w.GetMetricLabels()["zone"], w.GetMetricLabels()["zone_locality"]
	if zone == "" || locality == "" || locality == "unknown" {
		return zone
	}
	return zone + " (" + locality + ")"
}

func hintsOf(w *pb.WeightedAddr) string {
	protocol := ""
	port := ""
	authority := ""
	switch w.GetProtocolHint().GetProtocol().(type) {
	case *pb.ProtocolHint_H2_:
		protocol = "h2"
	case *pb.ProtocolHint_Opaque_:
		protocol = "opaque"
	}
	if inbound := w.GetProtocolHint().GetOpaqueTransport().GetInboundPort(); inbound != 0 {
		port = fmt.Sprintf("via:%d", inbound)
	}
	if name := w.GetAuthorityOverride().GetAuthorityOverride(); name != "" {
		authority = "authority:" + name
	}
	return joined(",", protocol, port, authority)
}

func podOf(w *pb.WeightedAddr) string {
	return cmp.Or(w.GetMetricLabels()["pod"], w.GetMetricLabels()["external_workload"])
}

// peerOf returns the identity that the endpoint's TLS certificate must have.
func peerOf(w *pb.WeightedAddr) string {
	return cmp.Or(w.GetTlsIdentity().GetDnsLikeIdentity().GetName(), w.GetTlsIdentity().GetUriLikeIdentity().GetUri())
}
