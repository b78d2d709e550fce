package cluster

import (
	"net/netip"
	"strings"
	"unique"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"isthmus/clusterstore/follow"
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

// pod is what is known of one Pod: 80 bytes, its name, the names of its owner and
// service account, and the values of its labels, each once, since what it has in
// common with many is shared. The Pods of one ReplicaSet or Job share those too.
//
// So a Pod with labels as real ones have, that no slice names, takes 220 to 280
// bytes if it has siblings in a ReplicaSet or a StatefulSet, and up to 450 if it is
// the only one of a Job. That goes for label keys that many Pods have: one with a
// key that no other has takes 600 to 700 bytes more.
//
// To an endpoint an ExternalWorkload is what a Pod is, so it is kept as one, under
// a key that no Pod has.
type pod struct {
	key    string // namespace/name, for an ExternalWorkload behind workloadPrefix
	facts  podFacts
	owner  *owner   // the ReplicaSet or Job that it belongs to; nil: another owner, or none
	slices []*slice // that name it
}

// podFacts is all that an endpoint takes from its Pod. The zero value stands for
// a Pod that is not known.
type podFacts struct {
	template unique.Handle[template] // without what stands in traits
	node     unique.Handle[string]
	// traits are what few or no others have: the names of its owner and of its
	// service account and the values of its labels, each ended by labelEnd. In the
	// template they would cost every such Pod, or every workload, a template.
	traits string
}

// newFacts takes apart what is known of a Pod or ExternalWorkload.
func newFacts(t template, node string) podFacts {
	traits := t.owner.name + labelEnd + t.serviceAccount + labelEnd + t.labels.values
	t.owner.name, t.serviceAccount, t.labels.values = "", "", ""
	return podFacts{template: unique.Make(t), node: unique.Make(node), traits: traits}
}

// said puts together what newFacts has taken apart.
func (f podFacts) said() template {
	t := f.template.Value()
	var rest string
	t.owner.name, rest, _ = strings.Cut(f.traits, labelEnd)
	t.serviceAccount, t.labels.values, _ = strings.Cut(rest, labelEnd)
	return t
}

func (f podFacts) known() bool { return f != podFacts{} }

// external tells whether known facts are an ExternalWorkload's.
func (f podFacts) external() bool {
	t := f.template.Value()
	return t.external()
}

// id says which Pod or ExternalWorkload it is, of which t is the template.
func (p *pod) id(t *template) (namespace, name string) {
	if t.external() {
		return follow.SplitKey(strings.TrimPrefix(p.key, workloadPrefix))
	}
	return follow.SplitKey(p.key)
}

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
// has not. It is served without inbound port, and counted ([Health]).
func (t template) malformed() bool { return t.controlPlane != "" && t.proxy == proxyPorts{} }

// pods follows Pods.
func (c *Cluster) pods() follow.Kind[*corev1.Pod, placedPod] {
	return follow.Kind[*corev1.Pod, placedPod]{
		Name: "pods", Needed: true,
		Calls:   follow.CallsOf(c.cfg.Client.Core.Pods("")),
		Compact: c.compactPod,
		Into:    locked[placedPod]{c.state, c.state.podKind()},
		Changed: c.checkProxy,
	}
}

// placedPod is what is kept of a Pod or ExternalWorkload; where it is (site) only
// where addresses are asked for.
type placedPod struct {
	facts podFacts
	site  *site
}

func (c *Cluster) compactPod(o *corev1.Pod) (p placedPod, ok bool) {
	p.facts = c.cfg.Rules.compactPod(o)
	if c.state.addresses != nil {
		p.site = podSite(o)
	}
	return p, true
}

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

// containerPorts are the named ports of a Pod's containers, and those of its node
// that lead to them.
func containerPorts(spec *corev1.PodSpec) namedPorts {
	var ports []byte
	for c := range containers(spec) {
		for _, p := range c.Ports {
			ports = appendPort(ports, p.Name, p.ContainerPort)
			ports = appendPort(ports, p.Name, p.HostPort)
		}
	}
	return namedPorts(ports)
}

// checkProxy says which Pods are behind Health's MalformedProxies.
func (c *Cluster) checkProxy(key string, p placedPod, ok bool) {
	if ok && p.facts.template.Value().malformed() {
		c.cfg.Log.Debug("meshed pod does not say where its proxy listens", zap.String("pod", key))
	}
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
