package cluster

import (
	"net/netip"

	"isthmus/federation"
)

var _ federation.Owner = (*Own)(nil)

// Owner names the Service or Pod that has an address; empty: none has. A Service has
// its cluster IPs. A Pod has its IPs from when it gets them until it ends: those of its
// node too if it is on the node's network, or has ports there. ExternalWorkloads own
// nothing: a machine outside of all clusters may belong to several. Nor does a Pod own an
// address only because a host port is bound to it: whoever writes Pods may name any address.
func (c *Own) Owner(ip netip.Addr) string {
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

// Exposed names a Service that is reached from outside by an address, one of its
// externalIPs or of its load balancer; empty: none is.
func (c *Own) Exposed(ip netip.Addr) string {
	s := c.state
	s.mu.RLock()
	defer s.mu.RUnlock()
	if ids := s.own.exposed[ip]; len(ids) > 0 {
		return "Service " + ids[0].String()
	}
	return ""
}
