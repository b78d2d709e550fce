package cluster

import (
	"net/netip"
	"slices"
)

// site says where a Pod or ExternalWorkload is to be found. It is immutable.
type site struct {
	life        life
	hostNetwork bool         // its IPs are its node's, and not its own
	workload    bool         // it is an ExternalWorkload's
	ips         []netip.Addr // its first IP is first
	hosts       []netip.Addr // its node's IPs, if ports of those lead to it
	ports       []uint16     // these ports of its node; those that an ExternalWorkload declares; sorted
}

// life is how far a Pod is.
type life uint8

const (
	podStarting life = iota // or nobody knows; its addresses are its already
	podRunning
	podEnding // it runs, and is to be gone
	podGone   // it does not run any more, and has no addresses
)

// runs tells whether somebody answers there.
func (l life) runs() bool { return l == podRunning || l == podEnding }

// has tells whether the port is one of its ports.
func (s *site) has(port uint16) bool {
	_, ok := slices.BinarySearch(s.ports, port)
	return ok
}

func (s *site) equal(o *site) bool {
	return s == o || s != nil && o != nil && s.life == o.life && s.hostNetwork == o.hostNetwork && s.workload == o.workload &&
		slices.Equal(s.ips, o.ips) && slices.Equal(s.hosts, o.hosts) && slices.Equal(s.ports, o.ports)
}

// all iterates over the IPs at which it may be found, each once. No site (nil)
// has none.
func (s *site) all(yield func(netip.Addr) bool) {
	if s == nil || s.life == podGone {
		return
	}
	own := s.ips
	if s.hostNetwork {
		own = nil
	}
	for _, ip := range own {
		if !yield(ip) {
			return
		}
	}
	for _, ip := range s.hosts {
		if !slices.Contains(own, ip) && !yield(ip) {
			return
		}
	}
}
