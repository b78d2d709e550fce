package cluster

import (
	"net/netip"
	"slices"
)

// claim is the way in which a Pod or ExternalWorkload owns an address, the strongest
// first. A Service's cluster IP is stronger than all. If several have the same claim,
// the address is ambiguous: none of them owns it. Ports are TCP ports; other protocols
// don't count.
//
// A Pod that is being deleted but still runs keeps its address until a live Pod, or
// another Pod that is being deleted, claims it: so clients don't lose the identity of a
// Pod that drains.
type claim uint8

const (
	byIP       claim = iota // a Pod's own IP
	byHostPort              // a host port of the Pod, on an IP of its node
	byDraining              // either, of a Pod that is being deleted
	byWorkload              // IP and declared port of an ExternalWorkload
	noClaim
)

// claimWords describe several objects with the same claim. Several Pods that are being
// deleted have no claim.
var claimWords = [noClaim]string{byIP: "Pods with IP ", byHostPort: "Pods with host port ", byDraining: "", byWorkload: "ExternalWorkloads at "}

// claim returns its claim to the address.
func (l *location) claim(addr netip.AddrPort) claim {
	if l.workload {
		if l.has(addr.Port()) {
			return byWorkload
		}
		return noClaim
	}
	c := noClaim
	switch ip := addr.Addr(); {
	case !l.hostNetwork && slices.Contains(l.ips, ip):
		c = byIP
	case slices.Contains(l.hosts, ip) && l.has(addr.Port()):
		c = byHostPort
	}
	if c != noClaim && l.life == podEnding {
		return byDraining
	}
	return c
}

// claimants returns the objects with the strongest claim to the address, and that
// claim; noClaim: there are none. ExternalWorkloads, any number of which may have the
// same address, are looked up only if no Pod claims it.
func (a *ownIndex) claimants(addr netip.AddrPort) ([]*pod, claim) {
	if list, by := a.claimed(a.pods, addr); by != noClaim {
		return list, by
	}
	return a.claimed(a.workloads, addr)
}

func (a *ownIndex) claimed(index map[netip.Addr][]*pod, addr netip.AddrPort) ([]*pod, claim) {
	var by [noClaim][]*pod
	for _, p := range index[addr.Addr()] {
		if c := a.locations[p].claim(addr); c != noClaim {
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
