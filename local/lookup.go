package local

import (
	"cmp"
	"net/netip"

	"isthmus/federation"
)

// Ports returns the ports that a Service declares, in its order; none: there is no such
// Service.
func (l *Local) Ports(id federation.ServiceID) (ports []uint16) {
	svc := l.cluster.Service(id)
	if svc == nil {
		return nil
	}
	for _, p := range svc.Ports {
		ports = append(ports, p.Number)
	}
	return ports
}

// OwnerOf names what has an address ("Pod shop/web-1"), and the Service if it is the cluster
// IP of exactly one; empty: nothing has it.
func (l *Local) OwnerOf(ip netip.Addr) (owner string, service *federation.ServiceID) {
	if at := l.cluster.LookupAddress(netip.AddrPortFrom(ip, 0)); at.Service != nil {
		service = &at.ID
	}
	return l.cluster.Owner(ip), service
}

// Owner names the Pod or Service that has an address, also one by which a Service is reached from
// outside; empty: none has.
func (l *Local) Owner(ip netip.Addr) string {
	return cmp.Or(l.cluster.Owner(ip), l.cluster.Exposed(ip))
}
