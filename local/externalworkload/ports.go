package externalworkload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"isthmus/clusterstore/decode"
)

// maxPorts is the maximum number of ports in a slice, according to the documentation of the
// EndpointSlice API. With more ports, even a few workloads would need large slices.
const maxPorts = 100

// portsKey identifies a set of slice ports, regardless of their order.
type portsKey string

func newPortsKey(ports []discoveryv1.EndpointPort) portsKey {
	parts := make([]string, len(ports))
	for i, p := range ports {
		parts[i] = fmt.Sprintf(
			"%q %q %q %d",
			ptr.Deref(p.Name, ""),
			ptr.Deref(p.Protocol, ""),
			ptr.Deref(p.AppProtocol, ""),
			ptr.Deref(p.Port, -1),
		)
	}
	slices.Sort(parts)
	return portsKey(strings.Join(parts, ","))
}

func usedPorts(svc *corev1.Service, left *leftOut) []corev1.ServicePort {
	ports := svc.Spec.Ports
	if len(ports) > maxPorts {
		left.add(svc.Name, "has %d ports, but only the first %d are used", len(ports), maxPorts)
		ports = ports[:maxPorts]
	}
	return ports
}

// portsAt resolves the target ports of a Service to the port numbers of one workload. The
// result omits ports that the workload lacks; portsAt reports them to the problem function.
func portsAt(
	ports []corev1.ServicePort, w *decode.ExternalWorkload, problem func(string, ...any),
) []discoveryv1.EndpointPort {
	has := portsOf(w)
	list := make([]discoveryv1.EndpointPort, 0, len(ports))
	for i := range ports {
		p := &ports[i]
		if n := has[targetOf(p)]; n == 0 {
			problem("has no port %s/%s", targetPort(p), protocolOf(p))
		} else {
			list = append(list, discoveryv1.EndpointPort{Name: &p.Name, Port: &n, Protocol: new(protocolOf(p))})
		}
	}
	return list
}

// target identifies a port of a workload in the way that a Service does: by protocol, and by name
// or number.
type target struct {
	protocol corev1.Protocol
	port     intstr.IntOrString
}

// portsOf returns a map of a workload's port numbers. Each port has two keys: its name and its
// number. If several ports share a name or number, the map contains the first port.
func portsOf(w *decode.ExternalWorkload) map[target]int32 {
	found := make(map[target]int32, 2*len(w.Spec.Ports))
	for _, x := range w.Spec.Ports {
		if x.Port < 1 || x.Port > 65535 {
			continue
		}
		protocol := protocolOr(corev1.Protocol(x.Protocol))
		for _, port := range []intstr.IntOrString{intstr.FromString(x.Name), intstr.FromInt32(x.Port)} {
			if _, ok := found[target{protocol, port}]; !ok {
				found[target{protocol, port}] = x.Port
			}
		}
	}
	return found
}

func targetOf(p *corev1.ServicePort) target {
	port := targetPort(p)
	if port.Type == intstr.String {
		return target{protocolOf(p), intstr.FromString(port.StrVal)}
	}
	return target{protocolOf(p), intstr.FromInt32(port.IntVal)}
}

func targetPort(p *corev1.ServicePort) *intstr.IntOrString {
	if p.TargetPort == (intstr.IntOrString{}) {
		return new(intstr.FromInt32(p.Port))
	}
	return &p.TargetPort
}

func protocolOf(p *corev1.ServicePort) corev1.Protocol { return protocolOr(p.Protocol) }

func protocolOr(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}
