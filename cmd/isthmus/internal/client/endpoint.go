package client

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	pbnet "github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// endpoint is what a proxy knows about one address, in the form that "isthmus get
// -o json" prints.
type endpoint struct {
	Address     netip.AddrPort    `json:"address"`
	Weight      uint32            `json:"weight"`
	Labels      map[string]string `json:"labels,omitempty"`
	Identity    *identity         `json:"identity,omitempty"`
	Protocol    string            `json:"protocol,omitempty"`
	InboundPort uint32            `json:"inboundPort,omitempty"`
	Authority   string            `json:"authority,omitempty"`
	HTTP2       json.RawMessage   `json:"http2,omitempty"`

	Tier     string `json:"tier,omitempty"`     // of the service's preference
	Standing string `json:"standing,omitempty"` // of the endpoint's cluster

	size int // in bytes, as it was sent, with the labels of its message
}

type identity struct {
	DNS        string `json:"dns,omitempty"`
	URI        string `json:"uri,omitempty"`
	ServerName string `json:"serverName,omitempty"`
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
	e := endpoint{
		Address:     addr,
		Weight:      w.GetWeight(),
		Labels:      make(map[string]string),
		InboundPort: w.GetProtocolHint().GetOpaqueTransport().GetInboundPort(),
		Authority:   w.GetAuthorityOverride().GetAuthorityOverride(),
	}
	e.size = proto.Size(w)
	for name, value := range setLabels {
		e.Labels[name], e.size = value, e.size+len(name)+len(value)
	}
	maps.Copy(e.Labels, w.GetMetricLabels())
	e.Tier, e.Standing = e.takeLabel("isthmus_tier"), e.takeLabel("isthmus_standing")
	if t := w.GetTlsIdentity(); t != nil {
		e.Identity = &identity{
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

// cluster is the label target_cluster, which a gateway gives to endpoints of
// linked clusters unless it runs with --target-cluster-label=false.
func (e endpoint) cluster() string { return cmp.Or(e.Labels["target_cluster"], "local") }

// zone is the endpoint's zone, and whether the client is in the same.
func (e endpoint) zone() string {
	locality := e.Labels["zone_locality"]
	if zone := e.Labels["zone"]; zone == "" || locality == "" || locality == "unknown" {
		return zone
	}
	return e.Labels["zone"] + " (" + locality + ")"
}

func (e endpoint) hints() string {
	var hints []string
	if e.Protocol != "" {
		hints = append(hints, e.Protocol)
	}
	if e.InboundPort != 0 {
		hints = append(hints, fmt.Sprintf("via:%d", e.InboundPort))
	}
	if e.Authority != "" {
		hints = append(hints, "authority:"+e.Authority)
	}
	return strings.Join(hints, ",")
}

func (e endpoint) pod() string {
	return cmp.Or(e.Labels["pod"], e.Labels["external_workload"])
}

// peer is the identity that the endpoint's TLS certificate must have.
func (e endpoint) peer() string {
	if e.Identity == nil {
		return ""
	}
	return cmp.Or(e.Identity.DNS, e.Identity.URI)
}
