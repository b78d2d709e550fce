package cluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// Found is who or what is at an address.
type Found struct {
	// A Service's cluster IP.
	ID      federation.ServiceID
	Service *Service // nil: it is no cluster IP

	// Endpoint is a Pod or ExternalWorkload, or, if nobody is known there, the
	// bare address; nil: it is a cluster IP, or claimed by several.
	Endpoint *federation.Endpoint

	// Claimed says by what it is claimed, if by several.
	Claimed string
}

// At says who or what is at an address, now. A Pod has its address from when it is
// given until it ends, but is only known as itself while it runs; before that, the
// address is a bare one. It needs ProfileChanged, as do
// Instance and ServiceProfile: without it nothing is known of addresses.
func (c *Cluster) At(addr netip.AddrPort) Found {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.addresses == nil {
		return Found{Endpoint: c.bareAddress(addr)}
	}
	switch ids := s.addresses.services[addr.Addr()]; {
	case len(ids) == 1:
		return Found{ID: ids[0], Service: s.services[ids[0]].spec}
	case len(ids) > 1:
		return Found{Claimed: fmt.Sprintf("%d Services with cluster IP %v", len(ids), addr.Addr())}
	}
	list, by := s.addresses.claimants(addr)
	switch {
	case len(list) == 0:
		return Found{Endpoint: c.bareAddress(addr)}
	case len(list) == 1:
		return Found{Endpoint: c.resident(list[0], addr)}
	case by == byIP:
		return Found{Claimed: fmt.Sprintf("%d %s%v", len(list), claims[by], addr.Addr())}
	}
	return Found{Claimed: fmt.Sprintf("%d %s%v", len(list), claims[by], addr)}
}

// Instance says what the endpoint of a service with that hostname is, ready or
// not, as somebody who speaks to that port of it sees it; nil: there is none, or
// nothing is known of it yet.
func (c *Cluster) Instance(id federation.ServiceID, hostname string, port uint16) *federation.Endpoint {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.services[id]
	if e == nil || s.addresses == nil {
		return nil
	}
	l, a := e.instance(hostname)
	switch {
	case a == nil:
		return nil
	case a.target == "":
		addr := netip.AddrPortFrom(a.ip, port)
		made := c.bareAddress(addr)
		j := joiner{state: s, requested: port, data: l.data}
		if j.bare(made); !clean(made) {
			return c.bareAddress(addr)
		}
		return made
	case !a.pod.facts.known() || s.addresses.sites[a.pod] == nil:
		return nil
	}
	at := s.addresses.sites[a.pod]
	ip := a.ip
	if !at.workload {
		if len(at.ips) == 0 {
			return nil
		}
		ip = at.ips[0]
	}
	return c.resident(a.pod, netip.AddrPortFrom(ip, port))
}

// Service returns what is known of a Service; nil: there is none.
func (c *Cluster) Service(id federation.ServiceID) *Service {
	c.state.mu.RLock()
	defer c.state.mu.RUnlock()
	if e := c.state.services[id]; e != nil {
		return e.spec
	}
	return nil
}

// ServiceProfile returns one that exists; nil: it can't be used.
func (c *Cluster) ServiceProfile(namespace, name string) (p *federation.ServiceProfile, exists bool) {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.addresses == nil {
		return nil, false
	}
	f := s.addresses.profiles[follow.JoinKey(namespace, name)]
	if f == nil {
		return nil, false
	}
	return f.Profile, true
}

// bareAddress is an address behind which nobody is known to be.
func (c *Cluster) bareAddress(addr netip.AddrPort) *federation.Endpoint {
	return &federation.Endpoint{Addr: addr, Cluster: c.cfg.Name, Opaque: c.cfg.Rules.DefaultOpaquePorts.Contains(addr.Port())}
}

// resident is what is told of a Pod or ExternalWorkload at an address: that of
// the bare address until it runs, or if what it says can't be told.
func (c *Cluster) resident(p *pod, addr netip.AddrPort) *federation.Endpoint {
	made := federation.Endpoint{Addr: addr, Cluster: c.cfg.Name}
	j := joiner{state: c.state}
	if !c.state.addresses.sites[p].life.runs() || !j.pod(&made, p) {
		return c.bareAddress(addr)
	}
	made.Labels = append(made.Labels, federation.Label{Name: "namespace", Value: j.inNS})
	slices.SortFunc(made.Labels, func(a, b federation.Label) int { return cmp.Compare(a.Name, b.Name) })
	if !clean(&made) {
		return c.bareAddress(addr)
	}
	return &made
}
