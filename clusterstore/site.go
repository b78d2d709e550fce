package clusterstore

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/crd"
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

func lifeOf(o *corev1.Pod) life {
	switch terminating := o.DeletionTimestamp != nil; {
	case o.Status.Phase == corev1.PodRunning && terminating:
		return podEnding
	case o.Status.Phase == corev1.PodRunning:
		return podRunning
	case o.Status.Phase == corev1.PodSucceeded, o.Status.Phase == corev1.PodFailed, terminating:
		return podGone
	}
	return podStarting
}

// podSite reads where a Pod is; nil: it has no address yet.
func podSite(o *corev1.Pod) *site {
	s := &site{life: lifeOf(o), hostNetwork: o.Spec.HostNetwork}
	s.ips = addIP(s.ips, o.Status.PodIP)
	for _, p := range o.Status.PodIPs {
		s.ips = addIP(s.ips, p.IP)
	}
	for c := range containers(&o.Spec) {
		for _, p := range c.Ports {
			if tcp(string(p.Protocol)) {
				s.ports = addPort(s.ports, p.HostPort)
			}
		}
	}
	s.ports = portSet(s.ports)
	if len(s.ports) > 0 {
		s.hosts = addIP(s.hosts, o.Status.HostIP)
		for _, h := range o.Status.HostIPs {
			s.hosts = addIP(s.hosts, h.IP)
		}
	}
	if len(s.ips) == 0 && len(s.hosts) == 0 {
		return nil
	}
	return s
}

// workloadSite reads where an ExternalWorkload is: whether it is ready only
// slices say.
func workloadSite(o *crd.ExternalWorkload) *site {
	s := &site{life: podRunning, workload: true}
	for _, ip := range o.Spec.WorkloadIPs {
		s.ips = addIP(s.ips, ip.IP)
	}
	for _, p := range o.Spec.Ports {
		if tcp(p.Protocol) {
			s.ports = addPort(s.ports, p.Port)
		}
	}
	s.ports = portSet(s.ports)
	return s
}

// tcp tells whether a port is one that proxies can be asked about.
func tcp(protocol string) bool { return protocol == "" || protocol == string(corev1.ProtocolTCP) }

// maxIPs is how many IPs anything has at most: API servers allow two.
const maxIPs = 16

func addIP(list []netip.Addr, text string) []netip.Addr {
	if ip, ok := parseIP(text); ok && routable(ip) && len(list) < maxIPs && !slices.Contains(list, ip) {
		return append(slices.Clip(list), ip)
	}
	return list
}

// addPort adds a port, unless there is none.
func addPort(list []uint16, port int32) []uint16 {
	if n, ok := portNumber(&port); ok {
		return append(list, n)
	}
	return list
}

// portSet sorts ports, drops what is there twice, and gives back what that took.
func portSet(list []uint16) []uint16 {
	slices.Sort(list)
	return slices.Clone(slices.Compact(list))
}

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

// claim is how an address is somebody's. What comes first goes before the rest.
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
