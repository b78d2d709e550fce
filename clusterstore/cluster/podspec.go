package cluster

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Names of the proxy's container, and of the variables with its addresses.
const (
	proxyContainer   = "linkerd-proxy"
	inboundListenEnv = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR"
	adminListenEnv   = "LINKERD2_PROXY_ADMIN_LISTEN_ADDR"
	controlListenEnv = "LINKERD2_PROXY_CONTROL_LISTEN_ADDR"
)

// proxyPorts are the ports on which a Pod's proxy listens. The zero value: not known.
type proxyPorts struct{ inbound, admin, control uint16 }

// containers iterates over a Pod's init and regular containers.
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

// readProxy reads the ports of the Pod's proxy. All three are needed: connections to
// the admin and control ports don't go to the inbound port.
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

// listenPort reads the port of an ip:port; zero: it can't be read.
func listenPort(addr string) uint16 {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return 0
	}
	return a.Port()
}

// containerPorts are the named TCP ports of a Pod's containers, and their host ports.
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
