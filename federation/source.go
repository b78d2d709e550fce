package federation

import "net/netip"

// Source provides the current state of one cluster. A Source must be safe for concurrent use, and
// must never call the Table.
type Source interface {
	// State returns the state of the cluster's Service with the given name.
	State(ServiceID) ServiceState
	// Declares reports whether the cluster has a Service with the given name that declares the
	// port. Declares must not contradict Share.Undeclared.
	Declares(ServiceID, uint16) bool
	// Reader returns a Reader for one service port. Readers need not be closed.
	Reader(ServiceID, uint16) Reader
}

// Reader repeatedly reads one service port of one cluster. A Reader must not be used by several
// goroutines at the same time.
type Reader interface {
	Read() Share
}

// ServiceState says whether a Service exists and can have endpoints.
type ServiceState uint8

const (
	Missing ServiceState = iota
	// Present means that the Service exists, even if it has no endpoints.
	Present
	// ExternalName means that the Service is of type ExternalName, and therefore has no endpoints.
	ExternalName
)

// Share contains everything that a cluster offers for one service port.
type Share struct {
	State      ServiceState
	NodeLocal  bool // whether internalTrafficPolicy of the cluster's Service is Local
	Undeclared bool // whether the Service does not declare the port
	// Slices is sorted by precedence. If several slices contain the same address, the first of them
	// wins. Empty slices may be omitted.
	Slices []*Slice
}

// Slice contains the endpoints in one EndpointSlice for one port. A Slice is immutable.
//
// A source must return the same pointer until the content of the slice changes, because the table
// detects changes by comparing pointers.
type Slice struct {
	Name      string      // unique within its Share; only for explanations
	Endpoints []*Endpoint // sorted by Addr, one per Addr
	// Unready contains the known endpoints that are neither ready nor terminating. Unready
	// endpoints are counted, but never served. The list is sorted by address, with one endpoint per
	// address. Only the fields Addr, Kind, Cluster, Zone, Node, Hostname and Twin are set.
	Unready []*Endpoint
	// Behind is set if Endpoints contains the Linkerd gateways of a cluster on another network.
	// Clients can reach every endpoint behind the gateways through any of the gateways. When tiers
	// are chosen, the counts in Behind are used instead of the number of gateways.
	Behind *Behind
}

func (s *Slice) hasAddr(a netip.Addr) bool {
	i, _ := find(s.Endpoints, netip.AddrPortFrom(a, 0))
	return i < len(s.Endpoints) && s.Endpoints[i].Addr.Addr() == a
}

// Behind contains the numbers of ready and unready endpoints behind the Linkerd gateways in a
// Slice. A Behind is immutable.
type Behind struct{ Ready, Unready int }

// The scale method returns the counts for a part of a slice. Each count is multiplied by the
// fraction of the slice's addresses that the part contains, and is rounded up. The arguments are
// the number of addresses in the part, and the number of addresses in the whole slice.
func (b *Behind) scale(addresses, of int) *Behind {
	if b == nil || addresses == of {
		return b
	}
	share := func(n int) int { return (n*addresses + of - 1) / of }
	return &Behind{share(b.Ready), share(b.Unready)}
}

// AddressOwners is an interface that the local cluster's Source may implement. If an address is
// assigned to an object in the local cluster, the table refuses the address when a linked cluster
// offers it.
//
// Implementations must be safe for concurrent use, and must never call the Table. Whenever an
// address is assigned to a different object or to none, [Table.AddressOwnerChanged] must be called.
type AddressOwners interface {
	// AddressOwner returns the object that the address is assigned to, such as "Pod shop/web-1". If
	// there is no such object, the result is an empty string.
	AddressOwner(netip.Addr) string
}

// Reachable is an interface that a Source may implement to say whether clients can reach its
// cluster. The Services in an unreachable cluster still exist, but clients receive no endpoints
// from the cluster.
type Reachable interface {
	Reachable() bool
}
