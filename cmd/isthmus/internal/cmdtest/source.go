package cmdtest

import (
	"fmt"
	"net/netip"
	"strings"

	"isthmus/federation"
)

// Source is a fake cluster that offers addresses for Services. If Offers returns nil for a Service,
// the Service does not exist in the cluster.
type Source struct {
	Cluster federation.ClusterName
	Offers  func(federation.ServiceID) []netip.AddrPort
}

// Offering returns a cluster with one Service in namespace shop.
func Offering(cluster federation.ClusterName, has string, addrs ...string) *Source {
	list := []netip.AddrPort{}
	for _, a := range addrs {
		list = append(list, netip.MustParseAddrPort(a))
	}
	offers := func(id federation.ServiceID) []netip.AddrPort {
		if id != ShopID(has) {
			return nil
		}
		return list
	}
	return &Source{cluster, offers}
}

// Numbered returns a fake cluster that has a Service for every possible name. Each Service with a
// name of the form web-N has the given number of endpoints, and no two of these Services share an
// endpoint.
func Numbered(cluster federation.ClusterName, number, endpoints int) *Source {
	return &Source{cluster, func(id federation.ServiceID) (list []netip.AddrPort) {
		var n int
		_, _ = fmt.Sscanf(id.Name, "web-%d", &n) // other names have number 0
		for i := range endpoints {
			n := n*endpoints + i
			ip := netip.AddrFrom4([4]byte{10, byte(number), byte(n >> 8), byte(n)})
			list = append(list, netip.AddrPortFrom(ip, 80))
		}
		return list
	}}
}

// State implements federation.Source.
func (s *Source) State(id federation.ServiceID) federation.ServiceState {
	if s.Offers(id) == nil {
		return federation.Missing
	}
	return federation.Present
}

// Declares implements federation.Source.
func (s *Source) Declares(federation.ServiceID, uint16) bool { return true }

// Reader implements federation.Source.
func (s *Source) Reader(id federation.ServiceID, _ uint16) federation.Reader { return reader{s, id} }

// AddressOwner implements federation.Source. The address 10.0.0.99 is assigned to a Pod.
func (s *Source) AddressOwner(a netip.Addr) string {
	if a == netip.MustParseAddr("10.0.0.99") {
		return "Pod shop/mine"
	}
	return ""
}

type reader struct {
	*Source
	id federation.ServiceID
}

func (r reader) Read() federation.Share {
	slice := &federation.Slice{}
	for _, a := range r.Offers(r.id) {
		slice.Endpoints = append(slice.Endpoints, &federation.Endpoint{Addr: a, Cluster: r.Cluster})
	}
	return federation.Share{State: r.State(r.id), Slices: []*federation.Slice{slice}}
}

// A Directory contains Nodes n1, n2, …, each in the zone with the same number (z1, z2, …). A
// Directory has no profiles.
type Directory struct{}

// Zone implements grpcapi.Directory.
func (Directory) Zone(node string) (string, <-chan struct{}) {
	return strings.Replace(node, "n", "z", 1), nil
}

// Profile implements grpcapi.Directory.
func (Directory) Profile(federation.ProfileKey) *federation.Watch[*federation.Profile] { return nil }

// ShopID returns the ID of a Service in namespace shop.
func ShopID(name string) federation.ServiceID {
	return federation.ServiceID{Namespace: "shop", Name: name}
}
