package clusterstore

import (
	"net/netip"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/federation"
)

// Names that Linkerd gives to what we read of Pods.
const (
	controlPlaneLabel     = "linkerd.io/control-plane-ns"
	opaqueAnnotation      = "config.linkerd.io/opaque-ports"
	skipAnnotation        = "config.linkerd.io/skip-inbound-ports"
	templateHashLabel     = "pod-template-hash"
	zoneLabel             = "topology.kubernetes.io/zone"
	proxyContainer        = "linkerd-proxy"
	inboundListenEnv      = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR"
	adminListenEnv        = "LINKERD2_PROXY_ADMIN_LISTEN_ADDR"
	controlListenEnv      = "LINKERD2_PROXY_CONTROL_LISTEN_ADDR"
	defaultServiceAccount = "default"
)

// template is what a Pod usually has in common with its siblings, or all that
// there is to an ExternalWorkload.
type template struct {
	owner          reference // its only owner; zero: none, or several
	serviceAccount string
	controlPlane   string // namespace of the control plane that injected it; empty: not meshed
	opaque         Ports
	skip           Ports
	proxy          proxyPorts
	labels         labelSet
	ports          namedPorts
	identity       unique.Handle[federation.Identity] // of an ExternalWorkload; zero: it is a Pod
	invalid        string                             // why an ExternalWorkload can't be used; empty: it can
}

// external tells whether it is an ExternalWorkload's.
func (t *template) external() bool { return t.identity != unique.Handle[federation.Identity]{} }

// proxyPorts is where a Pod's proxy listens. The zero value: not known.
type proxyPorts struct{ inbound, admin, control uint16 }

// malformed tells whether the Pod should have a proxy whose ports are known, but
// has not.
func (t template) malformed() bool { return t.controlPlane != "" && t.proxy == proxyPorts{} }

func (r Rules) compactPod(o *corev1.Pod) podFacts {
	t := template{
		owner:          onlyOwner(o.OwnerReferences),
		serviceAccount: o.Spec.ServiceAccountName,
		controlPlane:   o.Labels[controlPlaneLabel],
		opaque:         r.DefaultOpaquePorts,
		labels:         newLabelSet(o.Labels),
		ports:          containerPorts(&o.Spec),
	}
	if t.serviceAccount == "" {
		t.serviceAccount = defaultServiceAccount
	}
	// Items that can't be read are left out, as everywhere in Linkerd; the
	// Pod is served by what can be read.
	if list, ok := o.Annotations[opaqueAnnotation]; ok {
		t.opaque, _ = ParsePorts(list, t.ports.numbers())
	}
	if list := o.Annotations[skipAnnotation]; list != "" {
		t.skip, _ = ParsePorts(list, nil)
	}
	if t.controlPlane != "" {
		t.proxy = readProxy(&o.Spec)
	}
	return newFacts(t, o.Spec.NodeName)
}

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

// readProxy reads where the Pod's proxy listens. All three addresses are needed
// to know what to send to its inbound port and what not.
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

// listenPort reads the port of an ip:port; zero: it is none.
func listenPort(addr string) uint16 {
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return 0
	}
	return a.Port()
}

// onlyOwner returns the owner, if there is exactly one.
func onlyOwner(list []metav1.OwnerReference) reference {
	if len(list) != 1 {
		return reference{}
	}
	return reference{kind: strings.ToLower(list[0].Kind), name: list[0].Name}
}

// compactOwner keeps of a ReplicaSet or Job what owns it.
func compactOwner(o *metav1.PartialObjectMetadata) (unique.Handle[reference], bool) {
	return unique.Make(onlyOwner(o.OwnerReferences)), true
}

// compactNode keeps a Node's zone.
func compactNode(o *metav1.PartialObjectMetadata) (string, bool) {
	return shared(o.Labels[zoneLabel]), true
}

// shared returns an equal string that is, mostly, the same one for equal strings.
func shared(s string) string { return unique.Make(s).Value() }

// portNumber reads a port as the API has it; absent and impossible ones are none.
func portNumber(p *int32) (uint16, bool) {
	if p == nil || *p < 1 || *p > 65535 {
		return 0, false
	}
	return uint16(*p), true
}

// parseIP reads an address as endpoints may have it: IPv6 addresses that stand
// for IPv4 ones become those, and addresses with a zone are no use to others.
func parseIP(s string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return netip.Addr{}, false
	}
	return ip.Unmap(), true
}
