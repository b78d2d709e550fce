package local

import (
	"net/netip"

	"isthmus/federation"
	"isthmus/internal/adminapi"
	"isthmus/local/exports/plan"
)

// Ports returns the TCP ports that a Service declares, in its order. It returns none if there is no such
// Service, or if the Service has none.
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

// ServiceOfImport returns the Service that a writer of exports has written for a ServiceImport. It
// returns false if there is none, as for a headless ServiceImport.
func (l *Local) ServiceOfImport(serviceImport federation.ServiceID) (federation.ServiceID, bool) {
	id := plan.DerivedService(plan.ID(serviceImport))
	svc := l.cluster.Service(federation.ServiceID(id))
	if svc == nil {
		return federation.ServiceID{}, false
	}
	written := plan.Strict(id, svc.Labels, svc.Annotations) && plan.ImportOf(id, svc.Labels) == serviceImport.Name
	return federation.ServiceID(id), written
}

// AddressOwner is what has an address. The zero value means that nothing has it.
type AddressOwner struct {
	Name    string                // "Pod shop/web-1"
	Service *federation.ServiceID // nil if the address is no cluster IP, or the cluster IP of several Services
	// Claimed names the objects that claim the whole address ("2 Pods with IP 10.0.0.1"). It is
	// empty if there is no conflict.
	Claimed string
}

// OwnerOf returns what has an address.
func (l *Local) OwnerOf(ip netip.Addr) AddressOwner {
	at := l.cluster.LookupAddress(netip.AddrPortFrom(ip, 0))
	owner := AddressOwner{Name: l.cluster.Owner(ip), Claimed: at.Claimed}
	if at.Service != nil {
		owner.Service = &at.ID
	}
	return owner
}

// AddressConflicts returns the addresses of the cluster that several objects claim, the oldest
// conflicts first, and how many more there are.
func (l *Local) AddressConflicts() (list []adminapi.AddressConflict, more int) {
	return l.cluster.AddressConflicts()
}

// AssignedTo names the Pod, Service or Node of the cluster that a request to the address would reach. It returns
// the empty string if the cache has none.
func (l *Local) AssignedTo(ip netip.Addr) string { return l.cluster.AssignedTo(ip) }
