package spec

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type Mesh struct {
	TrustDomain         string
	ControllerNamespace string
	OpaquePorts         []uint16 // opaque ports of Pods and ExternalWorkloads without the annotation
}

// Namespace contains the objects in one namespace of a cluster, keyed by name. The endpoints of a
// Service depend only on objects in its namespace. Namespace does not model node hints, ports that
// bypass the proxy, or slices that Linkerd's service mirror creates.
type Namespace struct {
	Name string
	Mesh
	Services       map[string]*corev1.Service
	EndpointSlices map[string]*discoveryv1.EndpointSlice
	Pods           map[string]*corev1.Pod
	ReplicaSets    map[string]metav1.Object
	Servers        map[string]Server
	Workloads      map[string]Workload
}

// Server contains the fields of a Server that determine which ports are opaque.
type Server struct {
	Pods, Workloads *metav1.LabelSelector // at most one of them is set
	Port            intstr.IntOrString
	Opaque          bool // whether the protocol is opaque
	Invalid         bool // whether the spec of the Server is malformed
}

type Workload struct {
	metav1.ObjectMeta
	Identity, ServerName string
	Ports                []corev1.ServicePort
	Invalid              bool // whether the spec of the ExternalWorkload is malformed
}

// Backend is an endpoint of a Service, as described by objects in the Service's cluster.
type Backend struct {
	Addr                 netip.AddrPort
	Kind                 string            // "Pod", "ExternalWorkload", or empty for neither
	Target               string            // name of the Pod or ExternalWorkload
	Labels               map[string]string // labels that do not depend on the client
	Zone, Node, Hostname string
	Zones                []string // zones in the hints of the endpoint, sorted
	DNS, URI             string   // TLS identity; at most one of them is set
	ServerName           string
	Meshed, Opaque       bool
	Authority            string // authority of requests, if it differs from the authority that clients ask for
	InboundPort          uint16 // port on which the proxy accepts opaque transport; zero if unknown
}

// BackendSlice contains the endpoints of one EndpointSlice for one port of its Service. Ready and
// Unready are each sorted by address.
type BackendSlice struct {
	Name           string
	Ready, Unready []Backend // the fields of Unready do not include labels and facts about the proxy
}

// Slice converts a BackendSlice to a [Slice], from which tiers are computed. Each endpoint in the
// result contains its Backend in the Of field.
func (l *BackendSlice) Slice() (s Slice) {
	for _, b := range l.Ready {
		s.Ready = append(s.Ready, b.endpoint())
	}
	for _, b := range l.Unready {
		s.Unready = append(s.Unready, b.endpoint())
	}
	return s
}

func (b Backend) endpoint() Endpoint {
	e := Endpoint{Addr: b.Addr, Zone: b.Zone, Hostname: b.Hostname, Zones: b.Zones, Of: b}
	if b.Kind != "" {
		e.Pod = b.Kind + " " + b.Target
	}
	if b.Kind == kindPod {
		e.Node = b.Node
	}
	return e
}

const (
	opaquePortsKey   = "config.linkerd.io/opaque-ports"
	controlPlaneKey  = "linkerd.io/control-plane-ns"
	templateHashKey  = "pod-template-hash"
	proxyContainer   = "linkerd-proxy"
	inboundPortEnv   = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR"
	adminPortEnv     = "LINKERD2_PROXY_ADMIN_LISTEN_ADDR"
	controlPortEnv   = "LINKERD2_PROXY_CONTROL_LISTEN_ADDR"
	workloadPort     = "linkerd-proxy" // name of the proxy's port of an ExternalWorkload
	workloadInbound  = 4143            // port of an ExternalWorkload's proxy, unless a port has the name workloadPort
	kindPod          = "Pod"
	kindWorkload     = "ExternalWorkload"
	kindReplicaSet   = "ReplicaSet"
	localTrafficOnly = corev1.ServiceInternalTrafficPolicyLocal
)

type ServiceState int

const (
	Missing      ServiceState = iota // it does not exist
	Present                          // it exists and has endpoints
	ExternalName                     // its type is ExternalName, so it has no endpoints
)

func (n *Namespace) State(service string) ServiceState {
	switch s := n.Services[service]; {
	case s == nil:
		return Missing
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return ExternalName
	}
	return Present
}

// NodeLocal reports whether clients get only those endpoints of a Service that are on their node.
func (n *Namespace) NodeLocal(service string) bool {
	policy := n.Services[service].Spec.InternalTrafficPolicy
	return policy != nil && *policy == localTrafficOnly
}

func (n *Namespace) Declares(service string, port uint16) bool {
	_, declared := n.declared(service, port)
	return declared
}

func (n *Namespace) declared(service string, port uint16) (name string, declared bool) {
	for _, p := range n.Services[service].Spec.Ports {
		if p.Port == int32(port) && isTCP(p.Protocol) {
			return p.Name, true
		}
	}
	return "", false
}

func isTCP(p corev1.Protocol) bool { return p == "" || p == corev1.ProtocolTCP }

// Backends returns the endpoints for one port of a Service, grouped by slice. The slices are sorted
// by name. The list omits slices without endpoints for the port.
func (n *Namespace) Backends(service string, port uint16) (list []BackendSlice) {
	if n.State(service) != Present {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(n.EndpointSlices)) {
		l := n.EndpointSlices[name]
		number, ok := n.target(l, service, port)
		if !ok {
			continue
		}
		one := BackendSlice{Name: name}
		one.Ready = n.ready(l, service, number)
		one.Unready = unready(l, number, one.Ready)
		if len(one.Ready)+len(one.Unready) > 0 {
			list = append(list, one)
		}
	}
	return list
}

// The target method returns the port number that an EndpointSlice contains for the given port of a
// Service. For a port that the Service does not declare, the target method returns the given port
// number.
func (n *Namespace) target(l *discoveryv1.EndpointSlice, service string, port uint16) (number uint16, ok bool) {
	if ServiceOf(l) != service || l.AddressType == discoveryv1.AddressTypeFQDN || len(l.Ports) == 0 {
		return 0, false
	}
	name, declared := n.declared(service, port)
	if !declared {
		return port, true
	}
	for _, p := range l.Ports {
		tcp := p.Protocol == nil || isTCP(*p.Protocol)
		if p.Name != nil && *p.Name == name && p.Port != nil && tcp {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}

// ServiceOf returns the name of a slice's Service, which comes from a label or from an owner
// reference.
func ServiceOf(l *discoveryv1.EndpointSlice) string {
	if name := l.Labels[discoveryv1.LabelServiceName]; name != "" {
		return name
	}
	for _, owner := range l.OwnerReferences {
		if owner.Kind == "Service" {
			return owner.Name
		}
	}
	return ""
}

// The ready method returns the ready endpoints of a slice. If several endpoints have the same
// address, the first endpoint that clients can use wins.
func (n *Namespace) ready(l *discoveryv1.EndpointSlice, service string, port uint16) []Backend {
	found := make(map[netip.AddrPort]Backend)
	for _, e := range l.Endpoints {
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		for _, addr := range addresses(e, port) {
			b, ok := n.backend(e, addr)
			if _, taken := found[addr]; taken || !ok {
				continue
			}
			b.Labels["namespace"] = n.Name
			b.Labels["service"] = service
			found[addr] = b
		}
	}
	return sorted(found)
}

// unready returns those endpoints of a slice that are not ready but may become ready. Addresses of
// ready endpoints are omitted.
func unready(l *discoveryv1.EndpointSlice, port uint16, ready []Backend) []Backend {
	found := make(map[netip.AddrPort]Backend)
	for _, e := range l.Endpoints {
		terminating := e.Conditions.Terminating != nil && *e.Conditions.Terminating
		if e.Conditions.Ready == nil || *e.Conditions.Ready || terminating {
			continue
		}
		b := Backend{Zone: value(e.Zone), Hostname: value(e.Hostname)}
		if ref := e.TargetRef; ref != nil {
			b.Kind = ref.Kind
			b.Target = ref.Name
		}
		switch b.Kind {
		case kindPod:
			b.Node = value(e.NodeName)
		case kindWorkload, "":
		default:
			continue
		}
		for _, addr := range addresses(e, port) {
			if _, taken := found[addr]; !taken {
				b.Addr = addr
				found[addr] = b
			}
		}
	}
	for _, b := range ready {
		delete(found, b.Addr)
	}
	return sorted(found)
}

func addresses(e discoveryv1.Endpoint, port uint16) (list []netip.AddrPort) {
	for _, text := range e.Addresses {
		if ip, err := netip.ParseAddr(text); err == nil {
			list = append(list, netip.AddrPortFrom(ip, port))
		}
	}
	return list
}

func sorted(found map[netip.AddrPort]Backend) []Backend {
	return slices.SortedFunc(maps.Values(found), func(a, b Backend) int { return a.Addr.Compare(b.Addr) })
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// The backend method returns a Backend for one address of an endpoint in an EndpointSlice. If the
// address belongs to a missing or unusable object, the result is false.
func (n *Namespace) backend(e discoveryv1.Endpoint, addr netip.AddrPort) (b Backend, ok bool) {
	switch ref := e.TargetRef; {
	case ref == nil:
		b = Backend{Addr: addr, Labels: make(map[string]string)}
	case ref.Kind == kindPod:
		p := n.Pods[ref.Name]
		if p == nil {
			return Backend{}, false
		}
		b = n.OfPod(p, addr)
	case ref.Kind == kindWorkload:
		w, exists := n.Workloads[ref.Name]
		if !exists || w.Invalid {
			return Backend{}, false
		}
		b = n.OfWorkload(&w, addr)
	default:
		return Backend{}, false
	}
	b.Zone = value(e.Zone)
	b.Hostname = value(e.Hostname)
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			b.Zones = append(b.Zones, z.Name)
		}
		slices.Sort(b.Zones)
	}
	return b, true
}

// OfPod returns the endpoint for one of a Pod's addresses. The zone, hostname and hints are not
// set, because only EndpointSlices contain them.
func (n *Namespace) OfPod(p *corev1.Pod, addr netip.AddrPort) Backend {
	account := cmp.Or(p.Spec.ServiceAccountName, "default")
	b := Backend{Addr: addr, Kind: kindPod, Target: p.Name, Node: p.Spec.NodeName}
	b.Labels = map[string]string{"namespace": n.Name, "pod": p.Name, "serviceaccount": account}
	if hash, exists := p.Labels[templateHashKey]; exists {
		b.Labels["pod_template_hash"] = hash
	}
	if len(p.OwnerReferences) == 1 {
		owner := n.controller(p.OwnerReferences[0])
		b.Labels[strings.ToLower(owner.Kind)] = owner.Name
	}
	list, annotated := p.Annotations[opaquePortsKey]
	selector := func(s Server) *metav1.LabelSelector { return s.Pods }
	b.Opaque = n.opaque(addr.Port(), list, annotated, podPorts(p, false)) ||
		n.policed(p.Labels, selector, addr.Port(), podPorts(p, true))
	b.InboundPort = inboundPort(p, addr.Port())
	controlPlane := p.Labels[controlPlaneKey]
	if controlPlane == "" {
		return b
	}
	b.Meshed = true
	b.Labels["control_plane_ns"] = controlPlane
	if controlPlane == n.ControllerNamespace {
		b.DNS = account + "." + n.Name + ".serviceaccount.identity." + controlPlane + "." + n.TrustDomain
		b.ServerName = b.DNS
	}
	return b
}

// OfWorkload returns the endpoint at an address of an ExternalWorkload. The zone, hostname and
// hints are not set, because only EndpointSlices contain them.
func (n *Namespace) OfWorkload(w *Workload, addr netip.AddrPort) Backend {
	b := Backend{
		Addr:        addr,
		Kind:        kindWorkload,
		Target:      w.Name,
		Labels:      map[string]string{"namespace": n.Name, "external_workload": w.Name},
		URI:         w.Identity,
		ServerName:  w.ServerName,
		Meshed:      true,
		InboundPort: workloadInbound,
	}
	if len(w.OwnerReferences) == 1 {
		b.Labels[strings.ToLower(w.OwnerReferences[0].Kind)] = w.OwnerReferences[0].Name
	}
	ports := make(map[string][]int32)
	for _, p := range w.Ports {
		if !isTCP(p.Protocol) {
			continue
		}
		ports[p.Name] = append(ports[p.Name], p.Port)
		if p.Name == workloadPort {
			b.InboundPort = uint16(p.Port)
		}
	}
	list, annotated := w.Annotations[opaquePortsKey]
	selector := func(s Server) *metav1.LabelSelector { return s.Workloads }
	b.Opaque = n.opaque(addr.Port(), list, annotated, ports) || n.policed(w.Labels, selector, addr.Port(), ports)
	return b
}

// controller returns the owner of a Pod. If a ReplicaSet owns the Pod, controller returns the owner
// of the ReplicaSet instead.
func (n *Namespace) controller(owner metav1.OwnerReference) metav1.OwnerReference {
	if owner.Kind != kindReplicaSet || n.ReplicaSets[owner.Name] == nil {
		return owner
	}
	if above := n.ReplicaSets[owner.Name].GetOwnerReferences(); len(above) == 1 {
		return above[0]
	}
	return owner
}

// podPorts returns the TCP ports of a Pod's containers, grouped by port name. If the hosts argument
// is true, the result also contains the host port of each container port.
func podPorts(p *corev1.Pod, hosts bool) map[string][]int32 {
	ports := make(map[string][]int32)
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, q := range c.Ports {
			if !isTCP(q.Protocol) {
				continue
			}
			ports[q.Name] = append(ports[q.Name], q.ContainerPort)
			if hosts {
				ports[q.Name] = append(ports[q.Name], q.HostPort)
			}
		}
	}
	return ports
}

// inboundPort returns the port on which a Pod's proxy accepts connections that use opaque transport
// to reach the given port. If the proxy's environment variables do not specify all of the proxy's
// ports, the result is zero. For the proxy's own admin and control ports, the result is zero.
func inboundPort(p *corev1.Pod, port uint16) uint16 {
	listen := make(map[string]uint16)
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, e := range c.Env {
			if at, err := netip.ParseAddrPort(e.Value); err == nil && c.Name == proxyContainer {
				listen[e.Name] = at.Port()
			}
		}
	}
	inbound, admin, control := listen[inboundPortEnv], listen[adminPortEnv], listen[controlPortEnv]
	if admin == 0 || control == 0 || port == admin || port == control {
		return 0
	}
	return inbound
}

// opaque reports whether the annotation for opaque ports contains the given port. Without the
// annotation, the default ports apply. The annotation lists port numbers, port ranges and port
// names.
func (n *Namespace) opaque(port uint16, list string, annotated bool, ports map[string][]int32) bool {
	if !annotated {
		return slices.Contains(n.OpaquePorts, port)
	}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		within := err == nil && err2 == nil && from <= uint64(port) && uint64(port) <= to
		if within || slices.Contains(ports[item], int32(port)) {
			return true
		}
	}
	return false
}

func (n *Namespace) policed(
	of map[string]string, selector func(Server) *metav1.LabelSelector, port uint16, ports map[string][]int32,
) bool {
	for _, s := range n.Servers {
		if s.Invalid || !s.Opaque {
			continue
		}
		selects := s.Port.Type == intstr.Int && s.Port.IntVal == int32(port) ||
			s.Port.Type == intstr.String && slices.Contains(ports[s.Port.StrVal], int32(port))
		if !selects {
			continue
		}
		matcher, err := metav1.LabelSelectorAsSelector(selector(s))
		if err == nil && matcher.Matches(labels.Set(of)) {
			return true
		}
	}
	return false
}
