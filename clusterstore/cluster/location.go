package cluster

import (
	"cmp"
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
	return l == o || l != nil && o != nil && l.life == o.life && l.hostNetwork == o.hostNetwork && l.workload == o.workload &&
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
