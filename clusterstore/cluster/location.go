package cluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// location contains the addresses of a Pod or ExternalWorkload. Values of this type are immutable.
type location struct {
	life        life
	hostNetwork bool         // the IPs belong to the node
	workload    bool         // belongs to an ExternalWorkload
	ips         []netip.Addr // status.podIP first
	hosts       []netip.Addr // IPs of the node, if the Pod has host ports
	hostPorts   []hostPort   // sorted by compareHostPorts
	bound       []netip.Addr // other addresses that host ports are bound to; not in ips or hosts
	ports       []uint16     // ports of an ExternalWorkload, sorted
}

// life is a stage in the lifecycle of a Pod. The stage is derived from the phase and the
// deletionTimestamp of the Pod.
type life uint8

const (
	podStarting life = iota // Pending or Unknown; the Pod may already have its addresses
	podRunning
	podEnding // still running, and being deleted
	podGone   // ended; the Pod has no addresses
)

// runs reports whether the containers of the Pod are running.
func (l life) runs() bool { return l == podRunning || l == podEnding }

// declares reports whether an ExternalWorkload declares the port.
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

// containerPort returns the container port behind a host port at an address. If the Pod does not
// have the host port, containerPort returns zero.
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

// portBehind returns the container port behind a host port at an address of the Pod's node. If the
// address belongs to the Pod itself or to an ExternalWorkload, portBehind returns zero.
func (l *location) portBehind(addr netip.AddrPort) uint16 {
	if !l.hostNetwork && slices.Contains(l.ips, addr.Addr()) {
		return 0
	}
	return l.containerPort(addr)
}

// has reports whether an IP belongs to the Pod or ExternalWorkload. If a Pod has host ports, the
// IPs of its node also belong to the Pod.
func (l *location) has(ip netip.Addr) bool {
	return slices.Contains(l.ips, ip) || slices.Contains(l.hosts, ip)
}

// all iterates without duplicates over the IPs, the node's IPs, and the addresses to which host
// ports are bound. A nil location has no addresses.
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

// claim is the reason why an address may be assigned to a Pod or ExternalWorkload. A lower value
// means a stronger claim. The cluster IP of a Service takes precedence over all claims. If several
// objects have the same claim to an address, the address is ambiguous and is not assigned to any of
// them. Only TCP ports count.
//
// A Pod that is being deleted but still running keeps its address until another Pod claims the
// address. Clients can therefore identify a draining Pod. If several Pods that are being deleted
// claim the same address, the address is not assigned to any of them.
//
// If a Pod binds a host port to an address with the hostIP field, the Pod only claims the host port
// at that address. If the kubelet does not report that address for the node, the address may not
// exist on the node. A claim to an address that the kubelet does not report is the weakest claim.
type claim uint8

const (
	byIP        claim = iota // IP of the Pod itself
	byHostPort               // host port of the Pod, on an IP of its node
	byDraining               // byIP or byHostPort, of a Pod that is being deleted
	byWorkload               // IP and declared port of an ExternalWorkload
	byBoundPort              // host port of the Pod, on another address named by hostIP
	noClaim
)

// claimWords contains a description of each claim for the case that several objects have the claim.
// The description of byDraining is empty, because several Pods that are being deleted cannot claim
// the same address.
var claimWords = [noClaim]string{
	byIP:        "Pods with IP ",
	byHostPort:  "Pods with host port ",
	byDraining:  "",
	byWorkload:  "ExternalWorkloads at ",
	byBoundPort: "Pods with host port ",
}

// claim returns the claim of the Pod or ExternalWorkload to an address.
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

// claimed returns a description of several objects that have the same claim to an address.
func claimed(n int, by claim, addr netip.AddrPort) string {
	if by == byIP {
		return fmt.Sprintf("%d %s%v", n, claimWords[by], addr.Addr())
	}
	return fmt.Sprintf("%d %s%v", n, claimWords[by], addr)
}

func claimedAsClusterIP(n int, ip netip.Addr) string {
	return fmt.Sprintf("%d Services with cluster IP %v", n, ip)
}
