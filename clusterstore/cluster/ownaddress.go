package cluster

import (
	"net/netip"

	"isthmus/federation"
)

var _ federation.Owner = (*Local)(nil)

// Owner names the Service or Pod that has an address; empty: none has. A Service has
// its cluster IPs. A Pod has its IPs from when it gets them until it ends: those of its
// node too if it is on the node's network, or has ports there. ExternalWorkloads own
// nothing: a machine outside of all clusters may belong to several. Nor does a Pod own an
// address only because a host port is bound to it: whoever writes Pods may name any address.
func (c *Local) Owner(ip netip.Addr) string {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if ids := s.own.services[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	for _, p := range s.own.pods[ip] {
		if s.own.locations[p].has(ip) {
			return "Pod " + p.key
		}
	}
	return ""
}

// AssignedTo names a Service, Node or Pod that a request to the address would reach. It returns the empty
// string if the cache has none.
//
// AssignedTo covers more than Owner: Nodes, addresses by which a Service is reached from outside (externalIPs and
// those of its load balancer), and every address that a Pod's host ports are bound to.
func (c *Local) AssignedTo(ip netip.Addr) string {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if ids := s.own.services[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	if names := s.own.nodes[ip]; len(names) > 0 {
		return "Node " + names[0]
	}
	if pods := s.own.pods[ip]; len(pods) > 0 {
		return "Pod " + pods[0].key
	}
	if ids := s.own.exposed[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	return ""
}
