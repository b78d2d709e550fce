package cluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// location contains the addresses of a Pod or ExternalWorkload. A location is immutable.
type location struct {
	life        life
	hostNetwork bool         // the IPs belong to the node
	workload    bool         // belongs to an ExternalWorkload
	ips         []netip.Addr // status.podIP first
	hosts       []netip.Addr // IPs of the node, if the Pod has host ports
	hostPorts   []hostPort   // sorted by compareHostPorts
	bound       []netip.Addr // other addresses to which host ports are bound
	ports       []uint16     // ports of an ExternalWorkload, sorted
}

// life is a stage in the lifecycle of a Pod, derived from its phase and deletionTimestamp.
type life uint8

const (
	podStarting life = iota // Pending or Unknown; the Pod may already have its addresses
	podRunning
	podEnding // running, and being deleted
	podGone   // ended, and without addresses
)

func (l life) runs() bool { return l == podRunning || l == podEnding }

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

// containerPort returns the container port behind a host port at an address, or zero if the Pod has
// no such host port.
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

// portBehind returns the container port behind a host port at an address of the Pod's node. The
// result is zero if the address is an IP of the Pod itself or of an ExternalWorkload.
func (l *location) portBehind(addr netip.AddrPort) uint16 {
	if !l.hostNetwork && slices.Contains(l.ips, addr.Addr()) {
		return 0
	}
	return l.containerPort(addr)
}

// contains reports whether an IP belongs to the Pod or ExternalWorkload. If a Pod has host ports,
// the IPs of its node also belong to the Pod.
func (l *location) contains(ip netip.Addr) bool {
	return slices.Contains(l.ips, ip) || slices.Contains(l.hosts, ip)
}

// addrs iterates over the IPs of the Pod or ExternalWorkload, the IPs of its node, and the
// addresses to which its host ports are bound. Duplicate addresses are omitted. The receiver may be
// nil.
func (l *location) addrs(yield func(netip.Addr) bool) {
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

// A claim specifies why a Pod or ExternalWorkload is a candidate for an address. Lower values are
// stronger claims. The cluster IP of a Service takes precedence over all claims. If several objects
// have equally strong claims to an address, and no object has a stronger claim, the address is
// ambiguous and is not assigned to any object. Only claims to TCP ports are considered.
//
// A running Pod that is being deleted keeps its address until another Pod claims the address.
// Clients can therefore identify draining Pods. If several Pods that are being deleted claim the
// same address, the address is not assigned to any of them.
//
// If a host port specifies a hostIP, the Pod claims the port only on that address. The creator of a
// Pod can specify any hostIP. A claim to a hostIP has the lowest precedence, unless the kubelet
// reports the hostIP as an address of the node.
type claim uint8

const (
	byIP        claim = iota // an IP of the Pod
	byHostPort               // a host port on an IP of the Pod's node
	byDraining               // byIP or byHostPort, for a Pod that is being deleted
	byWorkload               // an IP and a declared port of an ExternalWorkload
	byBoundPort              // a host port on another address, specified as hostIP
	noClaim
)

// The text for byDraining is empty, because Pods that are being deleted never make an address
// ambiguous.
var claimWords = [noClaim]string{
	byIP:        "Pods with IP ",
	byHostPort:  "Pods with host port ",
	byDraining:  "",
	byWorkload:  "ExternalWorkloads at ",
	byBoundPort: "Pods with host port ",
}

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

func claimed(n int, by claim, addr netip.AddrPort) string {
	if by == byIP {
		return fmt.Sprintf("%d %s%v", n, claimWords[by], addr.Addr())
	}
	return fmt.Sprintf("%d %s%v", n, claimWords[by], addr)
}

func claimedAsClusterIP(n int, ip netip.Addr) string {
	return fmt.Sprintf("%d Services with cluster IP %v", n, ip)
}
