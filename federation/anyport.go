package federation

import (
	"net/netip"
	"slices"
	"strconv"
)

// AnyPort, as the port of a Key, stands for all ports of a service that none of its
// members declares. A client may ask for any of them, and each endpoint has them all: so
// the sets differ in the port's number and in little else, and all clients share one
// set, whatever port they ask for. Endpoint.At has what it means for one port.
const AnyPort uint16 = 0

// PortSet is a set of port numbers. It is comparable, and safe for concurrent use.
type PortSet interface{ Contains(port uint16) bool }

// PortRules is what of an endpoint depends on the port, besides its number. It is
// immutable, and comparable.
type PortRules struct {
	Opaque     PortSet   // Endpoint.Opaque is set for these; nil: none
	Skipped    PortSet   // these bypass the proxy: not Meshed, no Identity; nil: none
	Own        [2]uint16 // ports of the proxy itself: no InboundPort
	RemoteName string    // Authority is this and the port; empty: none
}

// At returns the endpoint at one port: itself, unless it stands for any port.
func (e *Endpoint) At(port uint16) *Endpoint {
	if e.Ports == nil || port == AnyPort {
		return e
	}
	at := e.ValueAt(port)
	return &at
}

// ValueAt is At as a value: to look at all endpoints of a set at a port, without
// keeping them. It allocates only for a port that bypasses the proxy, and with a RemoteName.
func (e *Endpoint) ValueAt(port uint16) Endpoint {
	r, at := e.Ports, *e
	if r == nil || port == AnyPort {
		return at
	}
	at.Ports = nil
	at.Addr = netip.AddrPortFrom(e.Addr.Addr(), port)
	at.Opaque = r.Opaque != nil && r.Opaque.Contains(port)
	skipped := r.Skipped != nil && r.Skipped.Contains(port)
	at.Meshed = at.Meshed && !skipped
	if slices.Contains(r.Own[:], port) {
		at.InboundPort = 0
	}
	if skipped || r.RemoteName != "" {
		at.Common = e.commonAt(port, skipped)
	}
	return at
}

// commonAt returns what an endpoint for any port has in common with others at one port, which
// may bypass the proxy.
func (e *Endpoint) commonAt(port uint16, skipped bool) *Common {
	c := *e.Common.Get()
	if skipped {
		c.Identity = Identity{}
	}
	if name := e.Ports.RemoteName; name != "" {
		c.Authority = name + ":" + strconv.Itoa(int(port))
	}
	return &c
}

// sameRules compares two endpoints' rules.
func sameRules(a, b *PortRules) bool { return a == b || a != nil && b != nil && *a == *b }

// At returns the set's endpoints at one port, in the same order: its own list, unless
// it is a set of AnyPort.
func (s *Set) At(port uint16) []*Endpoint {
	if !s.AnyPort || port == AnyPort {
		return s.Endpoints
	}
	list := make([]*Endpoint, len(s.Endpoints))
	for i, e := range s.Endpoints {
		list[i] = e.At(port)
	}
	return list
}

// Declares reports whether a member declares the port. Only sets of AnyPort know.
func (s *Set) Declares(port uint16) bool { return contains(s.declared, port) }

// contains reports whether a sorted list has the port.
func contains(sorted []uint16, port uint16) bool {
	_, ok := slices.BinarySearch(sorted, port)
	return ok
}

// declaredBy returns the ports that members declare, sorted.
func declaredBy(members []contribution) []uint16 {
	var all []uint16
	for _, c := range members {
		all = append(all, c.declared...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// undeclared reports whether no member declares the port, as far as is known.
func undeclared(members []contribution) bool {
	serving := false
	for _, c := range members {
		switch {
		case c.status.Link == Pending || c.status.Serving() && !c.undeclared:
			return false
		case c.status.Serving():
			serving = true
		}
	}
	return serving
}
