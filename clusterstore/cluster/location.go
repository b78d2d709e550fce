package cluster

import (
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
	ports       []uint16     // its host ports, or an ExternalWorkload's ports; sorted
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

// has reports whether the port is one of its ports.
func (l *location) has(port uint16) bool {
	_, ok := slices.BinarySearch(l.ports, port)
	return ok
}

func (l *location) equal(o *location) bool {
	return l == o || l != nil && o != nil && l.life == o.life && l.hostNetwork == o.hostNetwork && l.workload == o.workload &&
		slices.Equal(l.ips, o.ips) && slices.Equal(l.hosts, o.hosts) && slices.Equal(l.ports, o.ports)
}

// all iterates over its IPs, own ones and its node's, each once. nil has none.
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
}
