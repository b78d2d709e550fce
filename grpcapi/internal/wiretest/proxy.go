package wiretest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/proto"
)

// Proxy applies updates as linkerd2-proxy does, and records what a server must not
// send.
type Proxy struct {
	Opened    bool // an add or no_endpoints has come on this stream
	Exists    bool
	Endpoints map[netip.AddrPort]*pb.WeightedAddr // with all their labels
	Faults    []string                            // what the server sent, but must not
}

// Reopen is called when the stream has ended and the proxy opens another.
func (p *Proxy) Reopen() { p.Opened = false }

// Apply applies an update.
func (p *Proxy) Apply(u *pb.Update) {
	switch u := u.Update.(type) {
	case *pb.Update_Add:
		if len(u.Add.Addrs) == 0 {
			p.fault("empty add")
			return
		}
		if !p.Opened {
			p.Endpoints = make(map[netip.AddrPort]*pb.WeightedAddr)
		}
		p.Opened, p.Exists = true, true
		for _, a := range u.Add.Addrs {
			labels := maps.Clone(u.Add.MetricLabels)
			if labels == nil {
				labels = make(map[string]string)
			}
			if labels["zone_locality"] != "unknown" {
				delete(labels, "zone_locality") // a proxy reads it from the address only
			}
			maps.Copy(labels, a.MetricLabels)
			a := proto.Clone(a).(*pb.WeightedAddr)
			a.MetricLabels = labels
			p.Endpoints[addrOf(a.Addr)] = a
		}
	case *pb.Update_Remove:
		if !p.Opened {
			p.fault("remove first")
			return
		}
		for _, a := range u.Remove.Addrs {
			if _, ok := p.Endpoints[addrOf(a)]; !ok {
				p.fault("remove of " + addrOf(a).String() + ", which is not there")
			}
			delete(p.Endpoints, addrOf(a))
		}
		if len(p.Endpoints) == 0 {
			p.fault("a remove leaves nothing")
		}
	case *pb.Update_NoEndpoints:
		p.Opened, p.Exists = true, u.NoEndpoints.Exists
		p.Endpoints = make(map[netip.AddrPort]*pb.WeightedAddr)
	default:
		p.fault(fmt.Sprintf("unknown update %v", u))
	}
}

func (p *Proxy) fault(s string) { p.Faults = append(p.Faults, s) }

// Addrs are the addresses that the proxy has, in order.
func (p *Proxy) Addrs() []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(p.Endpoints), netip.AddrPort.Compare)
}

// Equal reports whether two proxies have the same endpoints.
func (p *Proxy) Equal(o *Proxy) bool {
	return p.Exists == o.Exists && maps.EqualFunc(p.Endpoints, o.Endpoints, func(a, b *pb.WeightedAddr) bool { return proto.Equal(a, b) })
}

func addrOf(a *net.TcpAddress) netip.AddrPort {
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
