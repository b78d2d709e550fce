package cluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// location has the addresses of a Pod or ExternalWorkload. It is immutable.
type location struct {
	life        life
	hostNetwork bool         // ips are its node's
	workload    bool         // it is an ExternalWorkload's
	ips         []netip.Addr // status.podIP first
	hosts       []netip.Addr // its node's IPs, if it has host ports
	hostPorts   []hostPort   // sorted by compareHostPorts
	bound       []netip.Addr // other addresses that host ports are bound to; neither in ips nor in hosts
	ports       []uint16     // an ExternalWorkload's ports; sorted
}

// life is the stage of a Pod's life, from its phase and deletionTimestamp.
type life uint8

const (
	podStarting life = iota // Pending or Unknown; it has its addresses already
	podRunning
	podEnding // it runs, and is being deleted
	podGone   // it has ended, and no longer has addresses
)

// runs reports whether its containers run.
func (l life) runs() bool { return l == podRunning || l == podEnding }

// declares reports whether the port is one of an ExternalWorkload's ports.
func (l *location) declares(port uint16) bool {
	_, ok := slices.BinarySearch(l.ports, port)
	return ok
}

func (l *location) equal(o *location) bool {
	if l == nil || o == nil || l == o {
		return l == o
	}
	return l.life == o.life && l.hostNetwork == o.hostNetwork && l.workload == o.workload &&
		slices.Equal(l.ips, o.ips) && slices.Equal(l.hosts, o.hosts) && slices.Equal(l.ports, o.ports) &&
		slices.Equal(l.hostPorts, o.hostPorts) && slices.Equal(l.bound, o.bound)
}

// containerPort returns the container port behind a host port at an address. Zero means that
// the Pod has no such host port there.
func (l *location) containerPort(addr netip.AddrPort) (container uint16) {
	first, _ := slices.BinarySearchFunc(l.hostPorts, addr.Port(), func(h hostPort, port uint16) int {
		return cmp.Compare(h.port, port)
	})
	for _, h := range l.hostPorts[first:] {
		switch {
		case h.port != addr.Port():
			return container
		case h.bound == addr.Addr():
			return h.container
		case !h.bound.IsValid() && slices.Contains(l.hosts, addr.Addr()):
			container = h.container
		}
	}
	return container
}

// portBehind returns the container port behind an address of the Pod's node. Zero means that the
// address is the Pod's own, or an ExternalWorkload's.
func (l *location) portBehind(addr netip.AddrPort) uint16 {
	if !l.hostNetwork && slices.Contains(l.ips, addr.Addr()) {
		return 0
	}
	return l.containerPort(addr)
}

// has reports whether an address is one of its IPs or, if it has host ports, of its node's.
func (l *location) has(ip netip.Addr) bool {
	return slices.Contains(l.ips, ip) || slices.Contains(l.hosts, ip)
}

// all iterates over its IPs, its node's, and those that host ports are bound to, each once. nil
// has none.
func (l *location) all(yield func(netip.Addr) bool) {
	if l == nil || l.life == podGone {
		return
	}
	for _, ip := range l.ips {
		if !yield(ip) {
			return
		}
	}
	for _, ip := range l.hosts {
		if !slices.Contains(l.ips, ip) && !yield(ip) {
			return
		}
	}
	for _, ip := range l.bound {
		if !yield(ip) {
			return
		}
	}
}

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

// claimed describes several objects with the same claim to an address.
func claimed(n int, by claim, addr netip.AddrPort) string {
	if by == byIP {
		return fmt.Sprintf("%d %s%v", n, claimWords[by], addr.Addr())
	}
	return fmt.Sprintf("%d %s%v", n, claimWords[by], addr)
}

func claimedAsClusterIP(n int, ip netip.Addr) string {
	return fmt.Sprintf("%d Services with cluster IP %v", n, ip)
}
