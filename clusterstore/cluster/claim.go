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
//
// A host port that hostIP binds to an address is claimed at that address only. If the address is
// not one of those that the kubelet reports for the node, nothing confirms that the node has it.
// Such a claim is weaker than all others.
type claim uint8

const (
	byIP        claim = iota // a Pod's own IP
	byHostPort               // a host port of the Pod, on an IP of its node
	byDraining               // either, of a Pod that is being deleted
	byWorkload               // IP and declared port of an ExternalWorkload
	byBoundPort              // a host port of the Pod, on another address that its hostIP names
	noClaim
)

// claimWords describe several objects with the same claim. Several Pods that are being
// deleted have no claim.
var claimWords = [noClaim]string{
	byIP:        "Pods with IP ",
	byHostPort:  "Pods with host port ",
	byDraining:  "",
	byWorkload:  "ExternalWorkloads at ",
	byBoundPort: "Pods with host port ",
}

// claim returns its claim to the address.
func (l *location) claim(addr netip.AddrPort) claim {
	if l.workload {
		if l.declares(addr.Port()) {
			return byWorkload
		}
		return noClaim
	}
	c := noClaim
	switch ip := addr.Addr(); {
	case !l.hostNetwork && slices.Contains(l.ips, ip):
		c = byIP
	case l.containerPort(addr) == 0:
	case slices.Contains(l.hosts, ip):
		c = byHostPort
	case l.life != podEnding:
		return byBoundPort
	}
	if c != noClaim && l.life == podEnding {
		return byDraining
	}
	return c
}

// claimants returns the objects with the strongest claim to the address, and that
// claim; noClaim: there are none. ExternalWorkloads, any number of which may have the
// same address, are looked up only if no Pod has a stronger claim.
func (x *ownIndex) claimants(addr netip.AddrPort) ([]*pod, claim) {
	pods, byPods := x.claimed(x.pods, addr)
	if byPods < byWorkload {
		return pods, byPods
	}
	if workloads, by := x.claimed(x.workloads, addr); by != noClaim {
		return workloads, by
	}
	return pods, byPods
}

func (x *ownIndex) claimed(index map[netip.Addr][]*pod, addr netip.AddrPort) ([]*pod, claim) {
	var by [noClaim][]*pod
	for _, p := range index[addr.Addr()] {
		if c := x.locations[p].claim(addr); c != noClaim {
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
