package cluster

import (
	"fmt"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

const (
	// workloadPrefix tells keys of ExternalWorkloads from those of Pods, which
	// have one slash.
	workloadPrefix = "workload/"
	// proxyPortName is the port of an ExternalWorkload on which its proxy takes
	// traffic; without it, that is proxyInboundPort.
	proxyPortName    = "linkerd-proxy"
	proxyInboundPort = 4143
)

// workloads follows ExternalWorkloads. Each is kept as a Pod is, with other facts: it
// is of the slice's namespace, has a proxy on every port, and its zone is the
// slice's. Whether it is ready only the slice says.
func (c *Cluster) workloads() follow.Kind[*crd.ExternalWorkload, placedPod] {
	return follow.Kind[*crd.ExternalWorkload, placedPod]{
		Name:    "externalworkloads",
		Calls:   follow.CallsOf(c.cfg.Client.Workloads),
		Compact: c.compactWorkload,
		Into:    locked[placedPod]{c.state, c.state.workloadKind()},
	}
}

func (c *Cluster) compactWorkload(o *crd.ExternalWorkload) (p placedPod, ok bool) {
	p.facts = c.cfg.Rules.compactWorkload(o)
	if c.state.addresses != nil && p.facts.template.Value().invalid == "" {
		p.site = workloadSite(o)
	}
	return p, true
}

func (r Rules) compactWorkload(o *crd.ExternalWorkload) podFacts {
	t := template{
		owner:    onlyOwner(o.OwnerReferences),
		opaque:   r.DefaultOpaquePorts,
		proxy:    proxyPorts{inbound: proxyInboundPort},
		labels:   newLabelSet(o.Labels),
		ports:    workloadPorts(&o.Spec),
		identity: unique.Make(federation.Identity{URI: o.Spec.MeshTLS.Identity, ServerName: o.Spec.MeshTLS.ServerName}),
		invalid:  o.Invalid,
	}
	if n := max(len(o.Spec.MeshTLS.Identity), len(o.Spec.MeshTLS.ServerName)); n > maxText && t.invalid == "" {
		t.invalid = fmt.Sprintf("spec.meshTLS: a name of %d bytes is longer than %d", n, maxText)
		t.identity = unique.Make(federation.Identity{})
	}
	if list, ok := o.Annotations[opaqueAnnotation]; ok {
		t.opaque, _ = ParsePorts(list, t.ports.numbers()) // as for Pods, items that can't be read are left out
	}
	if port, ok := t.ports.number(proxyPortName); ok {
		t.proxy.inbound = port
	}
	return newFacts(t, "")
}

func workloadPorts(spec *crd.ExternalWorkloadSpec) namedPorts {
	var ports []byte
	for _, p := range spec.Ports {
		ports = appendPort(ports, p.Name, p.Port)
	}
	return namedPorts(ports)
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

// workloadTarget names the ExternalWorkload behind an address, which is one of
// the slice's namespace. Not ok: it is something else.
func workloadTarget(ref *corev1.ObjectReference, namespace string) (string, bool) {
	if ref == nil || ref.Kind != "ExternalWorkload" || !nameable(ref.Name) {
		return "", false
	}
	return workloadPrefix + follow.JoinKey(namespace, ref.Name), true
}

// workloadKind keeps ExternalWorkloads among the Pods.
func (s *state) workloadKind() kind[placedPod] {
	return kind[placedPod]{
		put: func(key string, o placedPod) follow.Effect {
			s.note("ExternalWorkload "+key, o.facts.template.Value().invalid)
			return s.putPlaced(workloadPrefix+key, o)
		},
		drop: func(key string) bool {
			s.note("ExternalWorkload "+key, "")
			return s.dropPod(workloadPrefix + key)
		},
		prepareDrop: func(key string) { s.movePod(s.pods[workloadPrefix+key], nil) },
		keys: func(yield func(string) bool) {
			for key, p := range s.pods {
				key, ok := strings.CutPrefix(key, workloadPrefix)
				if ok && p.facts.known() && p.facts.external() && !yield(key) {
					return
				}
			}
		},
	}
}
