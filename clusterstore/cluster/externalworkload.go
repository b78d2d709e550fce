package cluster

import (
	"fmt"
	"maps"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

const (
	// workloadPrefix is the prefix of the keys of ExternalWorkloads in cache.pods. The keys of
	// ExternalWorkloads contain two slashes, whereas the keys of Pods contain one.
	workloadPrefix = "workload/"
	// proxyPortName is the name of the port on which an ExternalWorkload's proxy accepts inbound
	// traffic. If an ExternalWorkload has no port named linkerd-proxy, its proxy uses
	// proxyInboundPort.
	proxyPortName    = "linkerd-proxy"
	proxyInboundPort = 4143
)

// workloadKind stores each ExternalWorkload as a pod. Each ExternalWorkload is in the same
// namespace as its slices. The proxy of an ExternalWorkload accepts connections to all ports of the
// ExternalWorkload. The slice determines the zone and readiness of an ExternalWorkload.
func workloadKind(c *Cluster) follow.Kind[*decode.ExternalWorkload, compactedPod] {
	k := follow.Kind[*decode.ExternalWorkload, compactedPod]{
		Name:    "externalworkloads",
		Source:  c.cfg.Client.Sources.Workloads,
		Serves:  c.serves(decode.WorkloadVersion.WithResource("externalworkloads")),
		Size:    compactedPod.size,
		Shared:  compactedPod.shared,
		Compact: func(o *decode.ExternalWorkload) (compactedPod, bool) { return compactWorkload(c, o) },
		Into:    c.cache.pods.store(workloadPrefix),
	}
	if c.cfg.sliceManager() != "" {
		k.Changed = func(_ string, p compactedPod, _ bool) {
			c.cfg.local.WorkloadChanged(c.cache.local.replaced, p.selected)
		}
	}
	return k
}

func compactWorkload(c *Cluster, o *decode.ExternalWorkload) (p compactedPod, ok bool) {
	p.facts = workloadFactsOf(o, c.cfg.Rules)
	if c.cache.local != nil && p.facts.template.Value().invalid == "" {
		p.location = workloadLocation(o)
	}
	if c.cfg.sliceManager() != "" {
		p.selected = compactSelected(o)
	}
	return p, true
}

func workloadFactsOf(o *decode.ExternalWorkload, r Rules) podFacts {
	t := template{
		owner:    onlyOwner(o.OwnerReferences),
		opaque:   r.DefaultOpaquePorts,
		proxy:    proxyPorts{inbound: proxyInboundPort},
		labels:   newLabelSet(o.Labels),
		ports:    workloadPorts(&o.Spec),
		identity: unique.Make(federation.Identity{URI: o.Spec.MeshTLS.Identity, ServerName: o.Spec.MeshTLS.ServerName}),
		invalid:  o.Invalid,
	}
	if n := max(len(o.Spec.MeshTLS.Identity), len(o.Spec.MeshTLS.ServerName)); n > maxSentText && t.invalid == "" {
		t.invalid = fmt.Sprintf("spec.meshTLS: a name of %d bytes exceeds the limit of %d bytes", n, maxSentText)
		t.identity = unique.Make(federation.Identity{})
	}
	if list, ok := o.Annotations[opaqueAnnotation]; ok {
		t.opaque, _ = ParsePorts(list, t.ports.numbers()) // invalid items are ignored, as for Pods
	}
	if port, ok := t.ports.number(proxyPortName); ok {
		t.proxy.inbound = port
	}
	return newFacts(t, "")
}

// If p is invalid, expandWorkload returns nil.
func expandWorkload(p compactedPod, r Rules) *decode.ExternalWorkload {
	t := p.facts.fullTemplate()
	if t.invalid != "" {
		return nil
	}
	o := &decode.ExternalWorkload{ObjectMeta: t.expandMetadata(r)}
	identity := t.identity.Value()
	o.Spec.MeshTLS = decode.MeshTLS{Identity: identity.URI, ServerName: identity.ServerName}
	for name, number := range t.ports.all {
		o.Spec.Ports = append(o.Spec.Ports, decode.PortSpec{Name: name, Port: int32(number)})
	}
	return o
}

func workloadPorts(spec *decode.ExternalWorkloadSpec) namedPorts {
	var ports []byte
	for _, p := range spec.Ports {
		if tcp(p.Protocol) {
			ports = appendPort(ports, p.Name, p.Port)
		}
	}
	return namedPorts(ports)
}

// workloadLocation treats every ExternalWorkload as running, because only slices indicate
// readiness.
func workloadLocation(o *decode.ExternalWorkload) *location {
	s := &location{life: podRunning, workload: true}
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

// compactSelected copies only the fields from which EndpointSlices are built.
func compactSelected(o *decode.ExternalWorkload) *decode.ExternalWorkload {
	kept := &decode.ExternalWorkload{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, Labels: o.Labels},
		Spec:       decode.ExternalWorkloadSpec{Ports: o.Spec.Ports, WorkloadIPs: o.Spec.WorkloadIPs},
		Invalid:    o.Invalid,
	}
	for _, condition := range o.Status.Conditions {
		if condition.Type == string(corev1.PodReady) {
			ready := decode.WorkloadCondition{Type: condition.Type, Status: condition.Status}
			kept.Status.Conditions = append(kept.Status.Conditions, ready)
		}
	}
	return kept
}

func sameSelected(a, b *decode.ExternalWorkload) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.Invalid == b.Invalid && maps.Equal(a.Labels, b.Labels) &&
		slices.Equal(a.Spec.Ports, b.Spec.Ports) && slices.Equal(a.Spec.WorkloadIPs, b.Spec.WorkloadIPs) &&
		slices.Equal(a.Status.Conditions, b.Status.Conditions)
}

// workloadTarget returns the key of the ExternalWorkload to which an address refers, if any. The
// ExternalWorkload is always in the namespace of the slice.
func workloadTarget(ref *corev1.ObjectReference, namespace string) (string, bool) {
	if ref == nil || ref.Kind != "ExternalWorkload" || !nameable(ref.Name) {
		return "", false
	}
	return workloadPrefix + follow.JoinKey(namespace, ref.Name), true
}

func setWorkload(c *cache, key string, to compactedPod) {
	invalid := ""
	if to.facts.isRead() {
		invalid = to.facts.template.Value().invalid
	}
	c.setUnusable("ExternalWorkload "+key, invalid)
	c.local.setSelected(key, to.selected)
}
