package federation

import "net/netip"

// Source is a cluster's current state. It is safe for concurrent use and never
// calls back into the Table.
type Source interface {
	// State returns what kind of Service the cluster has by that name, now.
	State(ServiceID) ServiceState
	// Declares reports whether the cluster has a Service by that name that declares the
	// port, now. It agrees with Share.Undeclared.
	Declares(ServiceID, uint16) bool
	// Reader returns a Reader of one service port. It registers nothing: a Reader
	// need not be closed.
	Reader(ServiceID, uint16) Reader
}

// Reader reads one service port of one cluster, again and again. It may keep
// what it read last, to return unchanged Slices again. It is used by one goroutine
// at a time.
type Reader interface {
	Read() Share
}

// ServiceState is what kind of Service a cluster has by a name.
type ServiceState uint8

const (
	// Missing: the cluster has no such Service.
	Missing ServiceState = iota
	// Present: it has one, with or without endpoints.
	Present
	// ExternalName: it has one of type ExternalName, which has no endpoints
	// that could be served.
	ExternalName
)

// Share is what one cluster offers of a service port.
type Share struct {
	State      ServiceState
	NodeLocal  bool // the Service's own internalTrafficPolicy is Local
	Undeclared bool // the Service does not declare the port
	// Slices are in order of precedence: an address in several of them belongs to the first. Empty ones may be
	// left out.
	Slices []*Slice
}

// Slice is a part of a Share that changes as a whole: the endpoints of one
// EndpointSlice for one port. It is immutable. A source returns the same pointer
// for as long as its content has not changed: the table finds changes by comparing
// pointers.
type Slice struct {
	Name      string      // distinguishes it from others of its Share, for explanations
	Endpoints []*Endpoint // sorted by Addr, one per Addr
	// Unready are the addresses that are known and not ready, without those that are
	// terminating. They are counted, and never served. Only Addr, Kind, Cluster, Zone,
	// Node, Hostname and Twin are set. Sorted by Addr, one per Addr.
	Unready []*Endpoint
	// Behind is set for Linkerd gateways of a cluster on another network: each of the Endpoints leads
	// to all of it. It counts in their place when tiers are chosen. nil: the Endpoints stand
	// for themselves.
	Behind *Behind
}

// hasAddr reports whether the slice has an endpoint at the address, at any port.
func (s *Slice) hasAddr(a netip.Addr) bool {
	i, _ := find(s.Endpoints, netip.AddrPortFrom(a, 0))
	return i < len(s.Endpoints) && s.Endpoints[i].Addr.Addr() == a
}

// Behind is how many endpoints can be reached through each address of a Slice. It is
// immutable.
type Behind struct{ Ready, Unready int }

// scale returns what so many of the addresses stand for, rounded up.
func (b *Behind) scale(addresses, of int) *Behind {
	if b == nil || addresses == of {
		return b
	}
	share := func(n int) int { return (n*addresses + of - 1) / of }
	return &Behind{share(b.Ready), share(b.Unready)}
}

// AddressOwners may be implemented by the Source of the local cluster: the addresses that it
// names an owner of are not taken from linked clusters. It is safe for concurrent use
// and never calls back into the Table. Table.AddressOwnerChanged must follow every change.
type AddressOwners interface {
	// AddressOwner names the object that has the address ("Pod shop/web-1"); empty: none.
	AddressOwner(netip.Addr) string
}

// Reachable may be implemented by a Source of which it can be that nothing at all can be
// reached from here. Its members exist then, and contribute nothing.
type Reachable interface {
	Reachable() bool
}
