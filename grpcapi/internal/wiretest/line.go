package wiretest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/proto"
)

// Line is an update in a few words: add A B, remove A, no_endpoints(true).
func Line(u *pb.Update) string {
	var words []string
	switch u := u.Update.(type) {
	case *pb.Update_Add:
		for _, a := range u.Add.Addrs {
			words = append(words, AddrOf(a.Addr).String())
		}
		return "add " + strings.Join(words, " ")
	case *pb.Update_Remove:
		for _, a := range u.Remove.Addrs {
			words = append(words, AddrOf(a).String())
		}
		return "remove " + strings.Join(words, " ")
	case *pb.Update_NoEndpoints:
		return fmt.Sprintf("no_endpoints(%v)", u.NoEndpoints.Exists)
	}
	return "nothing"
}

// ProfileLine is a profile in a few words: "web routes a b opaque", "endpoint
// 10.0.0.1:80", "nothing".
func ProfileLine(p *pb.DestinationProfile) string {
	if proto.Size(p) == 0 {
		return "nothing"
	}
	var words []string
	if name := p.GetFullyQualifiedName(); name != "" {
		words = append(words, strings.Split(name, ".")[0])
	}
	if e := p.GetEndpoint(); e != nil {
		words = append(words, "endpoint", AddrOf(e.GetAddr()).String())
	}
	for i, r := range p.GetRoutes() {
		if i == 0 {
			words = append(words, "routes")
		}
		words = append(words, r.GetMetricsLabels()["route"])
	}
	if p.GetOpaqueProtocol() {
		words = append(words, "opaque")
	}
	return strings.Join(words, " ")
}

// AddrOf is an address of a message.
func AddrOf(a *net.TcpAddress) netip.AddrPort {
	var ip netip.Addr
	switch a := a.Ip.Ip.(type) {
	case *net.IPAddress_Ipv4:
		ip = netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, a.Ipv4)))
	case *net.IPAddress_Ipv6:
		b := binary.BigEndian.AppendUint64(nil, a.Ipv6.First)
		ip = netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(b, a.Ipv6.Last)))
	}
	return netip.AddrPortFrom(ip, uint16(a.Port))
}
