package federation

import "net/netip"

// Source provides the current state of one cluster. A Source must be safe for concurrent use, and
// must never call the Table.
type Source interface {
	// State returns the kind of Service that currently has this name in the cluster.
	State(ServiceID) ServiceState
	// Declares reports whether the cluster currently has a Service with this name that declares the
	// port. The result of Declares must be consistent with Share.Undeclared.
	Declares(ServiceID, uint16) bool
	// Reader returns a Reader for one service port. Readers are not registered with the source, so
	// they do not need to be closed.
	Reader(ServiceID, uint16) Reader
}

// Reader repeatedly reads one service port of one cluster. A Reader may cache its last result to
// return the same pointers for unchanged Slices. A Reader must not be used by several goroutines at
// the same time.
type Reader interface {
	Read() Share
}

// ServiceState says whether a Service with a given name exists in a cluster, and of which kind it
// is.
type ServiceState uint8

const (
	// Missing means that the Service does not exist in the cluster.
	Missing ServiceState = iota
	// Present means that the Service exists, with or without endpoints.
	Present
	// ExternalName means that the Service is of type ExternalName. A Service of type ExternalName
	// does not have endpoints to serve.
	ExternalName
)

// Share contains everything that a cluster offers for one service port.
type Share struct {
	State      ServiceState
	NodeLocal  bool // whether the Service's own internalTrafficPolicy is Local
	Undeclared bool // whether the Service does not declare the port
	// Slices is sorted by precedence. If several slices contain the same address, the first of
	// these slices wins. Empty slices may be omitted.
	Slices []*Slice
}

// Slice is a part of a Share that changes as a unit: the endpoints in one EndpointSlice for one
// port. A Slice is immutable.
//
// A source must return the same pointer until the content changes, because the table detects
// changes by comparing pointers.
type Slice struct {
	Name      string      // unique within its Share; used in explanations
	Endpoints []*Endpoint // sorted by Addr, one per Addr
	// Unready contains the known endpoints that are neither ready nor terminating. Unready
	// endpoints are counted, but never served. Unready is sorted by Addr, and contains one endpoint
	// per Addr. Only the fields Addr, Kind, Cluster, Zone, Node, Hostname and Twin are set.
	Unready []*Endpoint
	// If the Endpoints are Linkerd gateways of a cluster on another network, Behind is set. Each
	// Linkerd gateway leads to all endpoints behind the gateways of the slice. When tiers are
	// chosen, the endpoints in Behind are counted instead of the gateways. If Behind is nil, the
	// Endpoints themselves are counted.
	Behind *Behind
}

// hasAddr reports whether the slice contains an endpoint at the address, with any port.
func (s *Slice) hasAddr(a netip.Addr) bool {
	i, _ := find(s.Endpoints, netip.AddrPortFrom(a, 0))
	return i < len(s.Endpoints) && s.Endpoints[i].Addr.Addr() == a
}

// Behind is the number of endpoints that each address of a Slice leads to. A Behind is immutable.
type Behind struct{ Ready, Unready int }

// scale returns the share of b that belongs to the given number of addresses, rounded up. The
// second argument is the total number of addresses in the slice.
func (b *Behind) scale(addresses, of int) *Behind {
	if b == nil || addresses == of {
		return b
	}
	share := func(n int) int { return (n*addresses + of - 1) / of }
	return &Behind{share(b.Ready), share(b.Unready)}
}

// AddressOwners is an optional interface that the local cluster's Source may implement. If an
// address has an owner, the table does not accept it from linked clusters.
//
// An AddressOwners must be safe for concurrent use, and must never call the Table. After every
// change to the owner of an address, [Table.AddressOwnerChanged] must be called.
type AddressOwners interface {
	// AddressOwner returns the object that the address is assigned to, such as "Pod shop/web-1". If
	// the address is not assigned to an object, AddressOwner returns an empty string.
	AddressOwner(netip.Addr) string
}

// Reachable is an optional interface for a Source whose cluster may be entirely unreachable for
// clients. The members in an unreachable cluster exist, but do not contribute endpoints.
type Reachable interface {
	Reachable() bool
}
