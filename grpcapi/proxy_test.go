package grpcapi

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/net"
	"google.golang.org/protobuf/proto"
)

// proxy folds updates as linkerd2-proxy does, and notes what a server must not
// send.
type proxy struct {
	opened    bool // an add or no_endpoints has come since the stream was opened
	exists    bool
	endpoints map[netip.AddrPort]*pb.WeightedAddr // with all their labels
	faults    []string
}

// reopen is what happens when the stream ends and is opened again.
func (p *proxy) reopen() { p.opened = false }

func (p *proxy) apply(u *pb.Update) {
	switch u := u.Update.(type) {
	case *pb.Update_Add:
		if len(u.Add.Addrs) == 0 {
			p.fault("empty add")
			return
		}
		if !p.opened {
			p.endpoints = make(map[netip.AddrPort]*pb.WeightedAddr)
		}
		p.opened, p.exists = true, true
		for _, a := range u.Add.Addrs {
			labels := maps.Clone(u.Add.MetricLabels)
			if labels == nil {
				labels = make(map[string]string)
			}
			maps.Copy(labels, a.MetricLabels)
			a := proto.Clone(a).(*pb.WeightedAddr)
			a.MetricLabels = labels
			p.endpoints[addrOf(a.Addr)] = a
		}
	case *pb.Update_Remove:
		if !p.opened {
			p.fault("remove first")
			return
		}
		for _, a := range u.Remove.Addrs {
			if _, ok := p.endpoints[addrOf(a)]; !ok {
				p.fault("remove of " + addrOf(a).String() + ", which is not there")
			}
			delete(p.endpoints, addrOf(a))
		}
		if len(p.endpoints) == 0 {
			p.fault("a remove leaves nothing")
		}
	case *pb.Update_NoEndpoints:
		p.opened, p.exists = true, u.NoEndpoints.Exists
		p.endpoints = make(map[netip.AddrPort]*pb.WeightedAddr)
	default:
		p.fault(fmt.Sprintf("unknown update %v", u))
	}
}

func (p *proxy) fault(s string) { p.faults = append(p.faults, s) }

func (p *proxy) addrs() []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(p.endpoints), netip.AddrPort.Compare)
}

// equal tells whether two proxies have been told the same.
func (p *proxy) equal(o *proxy) bool {
	return p.exists == o.exists && maps.EqualFunc(p.endpoints, o.endpoints, func(a, b *pb.WeightedAddr) bool { return proto.Equal(a, b) })
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

// line is an update in a few words: add A B, remove A, no_endpoints(true).
func line(u *pb.Update) string {
	var words []string
	switch u := u.Update.(type) {
	case *pb.Update_Add:
		for _, a := range u.Add.Addrs {
			words = append(words, addrOf(a.Addr).String())
		}
		return "add " + strings.Join(words, " ")
	case *pb.Update_Remove:
		for _, a := range u.Remove.Addrs {
			words = append(words, addrOf(a).String())
		}
		return "remove " + strings.Join(words, " ")
	case *pb.Update_NoEndpoints:
		return fmt.Sprintf("no_endpoints(%v)", u.NoEndpoints.Exists)
	}
	return "nothing"
}

func lines(messages []received) string {
	var all []string
	for _, m := range messages {
		if m.profile != nil {
			all = append(all, profileLine(m.profile))
		} else {
			all = append(all, line(m.update))
		}
	}
	return strings.Join(all, "; ")
}
