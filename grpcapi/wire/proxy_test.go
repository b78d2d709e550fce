package wire

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"google.golang.org/protobuf/proto"

	"isthmus/grpcapi/internal/wiretest"
)

// proxy applies updates as linkerd2-proxy does, and records what a server must not
// send.
type proxy struct {
	Opened    bool // an add or no_endpoints has come on this stream; to be cleared for another one
	Exists    bool
	Endpoints map[netip.AddrPort]*pb.WeightedAddr // with all their labels
	Faults    []string                            // what the server sent, but must not
}

// Apply applies an update.
func (p *proxy) Apply(u *pb.Update) {
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
			p.Endpoints[wiretest.AddrOf(a.Addr)] = a
		}
	case *pb.Update_Remove:
		if !p.Opened {
			p.fault("remove first")
			return
		}
		for _, a := range u.Remove.Addrs {
			if _, ok := p.Endpoints[wiretest.AddrOf(a)]; !ok {
				p.fault("remove of " + wiretest.AddrOf(a).String() + ", which is not there")
			}
			delete(p.Endpoints, wiretest.AddrOf(a))
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

func (p *proxy) fault(s string) { p.Faults = append(p.Faults, s) }

// Addrs are the addresses that the proxy has, in order.
func (p *proxy) Addrs() []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(p.Endpoints), netip.AddrPort.Compare)
}

// Equal reports whether two proxies have the same endpoints.
func (p *proxy) Equal(o *proxy) bool {
	return p.Exists == o.Exists && maps.EqualFunc(p.Endpoints, o.Endpoints, func(a, b *pb.WeightedAddr) bool { return proto.Equal(a, b) })
}
