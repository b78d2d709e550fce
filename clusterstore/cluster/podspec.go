package cluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// These constants are the names of the proxy's container and of the environment variables that
// contain the proxy's listen addresses.
const (
	proxyContainer   = "linkerd-proxy"
	inboundListenEnv = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR"
	adminListenEnv   = "LINKERD2_PROXY_ADMIN_LISTEN_ADDR"
	controlListenEnv = "LINKERD2_PROXY_CONTROL_LISTEN_ADDR"
)

// proxyPorts contains the ports on which the proxy of a Pod listens. The zero value means that the
// ports are unknown.
type proxyPorts struct{ inbound, admin, control uint16 }

func containers(spec *corev1.PodSpec) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [...][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// readProxy returns the ports of a Pod's proxy, or the zero value if any of the three ports cannot
// be read. Connections to the admin and control ports must bypass the inbound port, so the inbound
// port can be used only if all three ports are known.
func readProxy(spec *corev1.PodSpec) proxyPorts {
	for c := range containers(spec) {
		if c.Name != proxyContainer {
			continue
		}
		var p proxyPorts
		for _, e := range c.Env {
			switch e.Name {
			case inboundListenEnv:
				p.inbound = listenPort(e.Value)
			case adminListenEnv:
				p.admin = listenPort(e.Value)
			case controlListenEnv:
				p.control = listenPort(e.Value)
			}
		}
		if p.inbound != 0 && p.admin != 0 && p.control != 0 {
			return p
		}
	}
	return proxyPorts{}
}

// environment returns the environment variables that set the given ports of a proxy. If the ports
// are unknown, the result is nil.
func (p proxyPorts) environment() []corev1.EnvVar {
	if p == (proxyPorts{}) {
		return nil
	}
	listen := func(name string, port uint16) corev1.EnvVar {
		return corev1.EnvVar{Name: name, Value: fmt.Sprint("0.0.0.0:", port)}
	}
	return []corev1.EnvVar{
		listen(inboundListenEnv, p.inbound), listen(adminListenEnv, p.admin), listen(controlListenEnv, p.control),
	}
}

func listenPort(addr string) uint16 {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return 0
	}
	return a.Port()
}

// containerPorts returns the named TCP ports of a Pod's containers. Host ports are included under
// the names of their container ports.
func containerPorts(spec *corev1.PodSpec) namedPorts {
	var ports []byte
	for c := range containers(spec) {
		for _, p := range c.Ports {
			if tcp(string(p.Protocol)) {
				ports = appendPort(ports, p.Name, p.ContainerPort)
				ports = appendPort(ports, p.Name, p.HostPort)
			}
		}
	}
	return namedPorts(ports)
}

// hostPort is a port on a Pod's node that is forwarded to a port of one of the Pod's containers.
type hostPort struct {
	port      uint16
	container uint16
	bound     netip.Addr // hostIP, the only address with this port; the zero Addr means all addresses of the node
}

// readHostPorts returns the TCP host ports of a Pod, sorted by compareHostPorts. Host ports bound
// to addresses such as 127.0.0.1 are ignored, because other hosts cannot reach them.
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
	// An init container may use the same host port as a regular container. The regular container
	// takes precedence, because it runs for as long as the Pod. CompactFunc retains the first of
	// several equal ports, so the list is reversed to put the ports of regular containers first.
	slices.Reverse(list)
	slices.SortStableFunc(list, compareHostPorts)
	list = slices.CompactFunc(list, func(a, b hostPort) bool { return compareHostPorts(a, b) == 0 })
	return slices.Clone(list) // frees unused capacity
}

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

func compareHostPorts(a, b hostPort) int {
	return cmp.Or(cmp.Compare(a.port, b.port), a.bound.Compare(b.bound))
}
