package cluster

import (
	"net/netip"
	"slices"
)

// claim is how an address is somebody's. What comes first goes before the rest,
// and a Service's cluster IP before them all. Several in one place have the address
// as little as none, and that is said. Ports are TCP ports: others never are in the
// way.
//
// A Pod that is being deleted but still runs keeps its address for as long as no
// live Pod claims that and no second one is in its place: whoever talks to it while
// it drains does not lose sight of who it is.
type claim uint8

const (
	byIP       claim = iota // a Pod's own IP
	byHostPort              // a port of its node that leads to it
	byDraining              // either, of a Pod that is ending
	byWorkload              // IP and declared port of an ExternalWorkload
	noClaim
)

// claims are what an address can be somebody's by, with the words for several of
// them. Of Pods that are ending several claim nothing.
var claims = [noClaim]string{byIP: "Pods with IP ", byHostPort: "Pods with host port ", byDraining: "", byWorkload: "ExternalWorkloads at "}

// claim tells how the address is its.
func (s *site) claim(addr netip.AddrPort) claim {
	if s.workload {
		if s.has(addr.Port()) {
			return byWorkload
		}
		return noClaim
	}
	c := noClaim
	switch ip := addr.Addr(); {
	case !s.hostNetwork && slices.Contains(s.ips, ip):
		c = byIP
	case slices.Contains(s.hosts, ip) && s.has(addr.Port()):
		c = byHostPort
	}
	if c != noClaim && s.life == podEnding {
		return byDraining
	}
	return c
}

// claimants are those who claim the address most, and by what: none if nobody
// does. ExternalWorkloads, any number of which may say the same, are looked at
// only where no Pod is.
func (a *addresses) claimants(addr netip.AddrPort) ([]*pod, claim) {
	if list, by := a.claimed(a.pods, addr); by != noClaim {
		return list, by
	}
	return a.claimed(a.workloads, addr)
}

func (a *addresses) claimed(index map[netip.Addr][]*pod, addr netip.AddrPort) ([]*pod, claim) {
	var by [noClaim][]*pod
	for _, p := range index[addr.Addr()] {
		if c := a.sites[p].claim(addr); c != noClaim {
			by[c] = append(by[c], p)
		}
	}
	for c, list := range by {
		if n := len(list); n == 1 || n > 1 && claim(c) != byDraining {
			return list, claim(c)
		}
	}
	return nil, noClaim
}
