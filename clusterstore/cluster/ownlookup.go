package cluster

import (
	"cmp"
	"net/netip"
	"slices"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// Found is the owner of an address.
type Found struct {
	// The Service with that cluster IP.
	ID      federation.ServiceID
	Service *Service // nil: the address is not a cluster IP

	// Endpoint is of the Pod or ExternalWorkload at the address or, if none is
	// known, of the bare address; nil: it is a cluster IP, or ambiguous.
	Endpoint *federation.Endpoint

	// Claimed describes the owners of an ambiguous address ("2 Pods with IP
	// 10.0.0.1"); empty: it is not ambiguous.
	Claimed string
}

// LookupAddress returns the owner of an address, now. A Pod owns its addresses from
// when it gets them until it ends, but until it runs the endpoint is that of the bare
// address.
func (c *Local) LookupAddress(addr netip.AddrPort) Found {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch ids := s.own.services[addr.Addr()]; {
	case len(ids) == 1:
		return Found{ID: ids[0], Service: s.services[ids[0]].spec}
	case len(ids) > 1:
		return Found{Claimed: claimedAsClusterIP(len(ids), addr.Addr())}
	}
	list, by := s.own.claimants(addr)
	switch {
	case len(list) == 0:
		return Found{Endpoint: c.bareAddress(addr)}
	case len(list) == 1:
		return Found{Endpoint: c.endpointAt(list[0], addr, s.own.locations[list[0]].portBehind(addr))}
	}
	return Found{Claimed: claimed(len(list), by, addr)}
}

// Instance returns the endpoint of a service with that hostname, ready or not, for a
// client that connects to that port of it; nil: there is none, or its Pod has not been
// read yet.
func (c *Local) Instance(id federation.ServiceID, hostname string, port uint16) *federation.Endpoint {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.services[id]
	if e == nil {
		return nil
	}
	l, a := e.byHostname(hostname)
	switch {
	case a == nil:
		return nil
	case a.target == "":
		addr := netip.AddrPortFrom(a.ip, port)
		made := c.bareAddress(addr)
		j := joiner{state: s, requested: port, mirror: &l.mirror}
		if j.bare(made); !sendable(made) {
			return c.bareAddress(addr)
		}
		return made
	case !a.pod.facts.isRead() || s.own.locations[a.pod] == nil:
		return nil
	}
	at := s.own.locations[a.pod]
	ip := a.ip
	if !at.workload {
		if len(at.ips) == 0 {
			return nil
		}
		ip = at.ips[0]
	}
	return c.endpointAt(a.pod, netip.AddrPortFrom(ip, port), 0)
}

// ServiceProfile returns a ServiceProfile, and whether it exists; nil, if it exists: it
// can't be used.
func (c *Local) ServiceProfile(namespace, name string) (p *federation.ServiceProfile, exists bool) {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := s.own.profiles[follow.JoinKey(namespace, name)]
	if f == nil {
		return nil, false
	}
	return f.Profile, true
}

// ServiceProfileProblem returns why a ServiceProfile, or a part of it, can't be used, and whether
// the ServiceProfile exists.
func (c *Local) ServiceProfileProblem(namespace, name string) (problem string, exists bool) {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := s.own.profiles[follow.JoinKey(namespace, name)]
	if f == nil {
		return "", false
	}
	return f.Problem, true
}

// bareAddress is the endpoint of an address without known owner.
func (c *Local) bareAddress(addr netip.AddrPort) *federation.Endpoint {
	return &federation.Endpoint{Addr: addr, Cluster: c.cfg.Name, Opaque: c.cfg.Rules.DefaultOpaquePorts.Contains(addr.Port())}
}

// endpointAt returns the endpoint of a Pod or ExternalWorkload at an address. It is that
// of the bare address until it runs, and if it has a text that can't be sent. With the port of a
// host port, behind is the container port behind it; otherwise behind is zero.
func (c *Local) endpointAt(p *pod, addr netip.AddrPort, behind uint16) *federation.Endpoint {
	made := federation.Endpoint{Addr: addr, Cluster: c.cfg.Name}
	j := joiner{state: c.state, behind: behind}
	if !c.state.own.locations[p].life.runs() || j.pod(&made, p) != federation.Served {
		return c.bareAddress(addr)
	}
	common := *made.Common.Get()
	common.Labels = append(slices.Clip(common.Labels), federation.Label{Name: "namespace", Value: j.namespace})
	slices.SortFunc(common.Labels, func(a, b federation.Label) int { return cmp.Compare(a.Name, b.Name) })
	made.Common = &common
	if !sendable(&made) {
		return c.bareAddress(addr)
	}
	return &made
}
