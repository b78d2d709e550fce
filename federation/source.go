package federation

import "net/netip"

// Source provides the current state of one cluster. It must be safe for concurrent use, and must
// never call the Table.
type Source interface {
	// State returns the kind of Service that the cluster currently has under this name.
	State(ServiceID) ServiceState
	// Declares reports whether the cluster currently has a Service of this name that declares the
	// port. The result must agree with Share.Undeclared.
	Declares(ServiceID, uint16) bool
	// Reader returns a Reader for one service port. A Reader does not need to be closed, because
	// the source does not register it.
	Reader(ServiceID, uint16) Reader
}

// Reader reads one service port of one cluster repeatedly. It may cache its last result, in order
// to return unchanged Slices with the same pointers. Only one goroutine at a time may use a Reader.
type Reader interface {
	Read() Share
}

// ServiceState says which kind of Service a cluster has under a name.
type ServiceState uint8

const (
	// Missing means that the cluster has no such Service.
	Missing ServiceState = iota
	// Present means that the cluster has such a Service, with or without endpoints.
	Present
	// ExternalName means that the Service is of type ExternalName. Such a Service has no endpoints
	// that could be served.
	ExternalName
)

// Share contains everything that one cluster offers for a service port.
type Share struct {
	State      ServiceState
	NodeLocal  bool // whether the Service's own internalTrafficPolicy is Local
	Undeclared bool // whether the Service does not declare the port
	// Slices is sorted by precedence. If several slices contain the same address, the first one
	// wins. Empty slices may be omitted.
	Slices []*Slice
}

// Slice is a part of a Share that changes as a whole: the endpoints of one EndpointSlice for one
// port. It is immutable.
//
// A source must return the same pointer until the content changes, because the table detects
// changes by comparing pointers.
type Slice struct {
	Name      string      // unique within its Share; used in explanations
	Endpoints []*Endpoint // sorted by Addr, one per Addr
	// Unready contains the known endpoints that are neither ready nor terminating. They are
	// counted, but never served. It is sorted by Addr, with one endpoint per Addr. Only Addr, Kind,
	// Cluster, Zone, Node, Hostname and Twin are set.
	Unready []*Endpoint
	// Behind is set if the Endpoints are Linkerd gateways of a cluster on another network. Each
	// gateway leads to all endpoints behind the gateways. For choosing tiers, Behind is counted
	// instead of the Endpoints. If Behind is nil, the Endpoints are counted themselves.
	Behind *Behind
}

// hasAddr reports whether the slice has an endpoint at the address, at any port.
func (s *Slice) hasAddr(a netip.Addr) bool {
	i, _ := find(s.Endpoints, netip.AddrPortFrom(a, 0))
	return i < len(s.Endpoints) && s.Endpoints[i].Addr.Addr() == a
}

// Behind says how many endpoints each address of a Slice leads to. It is immutable.
type Behind struct{ Ready, Unready int }

// scale returns the share of b that belongs to some of the slice's addresses, rounded up. of is the
// number of all addresses.
func (b *Behind) scale(addresses, of int) *Behind {
	if b == nil || addresses == of {
		return b
	}
	share := func(n int) int { return (n*addresses + of - 1) / of }
	return &Behind{share(b.Ready), share(b.Unready)}
}

// AddressOwners is an optional interface of the local cluster's Source. If an address has an owner,
// the table does not accept it from linked clusters.
//
// An AddressOwners must be safe for concurrent use, and must never call the Table. Every change
// must be followed by a call of [Table.AddressOwnerChanged].
type AddressOwners interface {
	// AddressOwner returns the object that the address is assigned to, such as "Pod shop/web-1". It
	// returns an empty string if there is none.
	AddressOwner(netip.Addr) string
}

// Reachable is an optional interface of a Source whose cluster may be entirely unreachable for
// clients. The members of an unreachable cluster exist, but contribute no endpoints.
type Reachable interface {
	Reachable() bool
}
