package cluster

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// hostPort is a port of a Pod's node that leads to a port of one of the Pod's containers.
type hostPort struct {
	port      uint16
	container uint16     // the container port behind it
	bound     netip.Addr // its hostIP, the only address with the port. The zero Addr means all addresses of the node.
}

// readHostPorts reads the host ports of a Pod's TCP ports, sorted by compareHostPorts. Host ports
// that are bound to an address which no other host can reach, such as 127.0.0.1, are left out.
func readHostPorts(spec *corev1.PodSpec) (list []hostPort) {
	for c := range containers(spec) {
		for i := range c.Ports {
			if h, ok := readHostPort(&c.Ports[i]); ok {
				list = append(list, h)
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	// An init container may have the same host port as a regular container, which comes later in
	// the list and runs for as long as the Pod.
	slices.Reverse(list)
	slices.SortStableFunc(list, compareHostPorts)
	list = slices.CompactFunc(list, func(a, b hostPort) bool { return compareHostPorts(a, b) == 0 })
	return slices.Clone(list) // without unused capacity
}

// readHostPort reads the host port of a container's port, if it has one.
func readHostPort(p *corev1.ContainerPort) (h hostPort, ok bool) {
	port, isHostPort := portNumber(&p.HostPort)
	container, valid := portNumber(&p.ContainerPort)
	if !isHostPort || !valid || !tcp(string(p.Protocol)) {
		return hostPort{}, false
	}
	h = hostPort{port: port, container: container}
	if p.HostIP == "" {
		return h, true
	}
	ip, valid := parseIP(p.HostIP)
	switch {
	case !valid:
		return hostPort{}, false
	case ip.IsUnspecified():
		return h, true
	}
	h.bound = ip
	return h, Routable(ip)
}

// compareHostPorts orders host ports by port, then by the address that they are bound to.
func compareHostPorts(a, b hostPort) int {
	return cmp.Or(cmp.Compare(a.port, b.port), a.bound.Compare(b.bound))
}
