package externalworkload

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	endpointutil "k8s.io/endpointslice/util"

	"isthmus/clusterstore/crd"
)

const (
	workloadKind = "ExternalWorkload"
	readyType    = "Ready" // the only condition of a workload that counts
	// maxAddresses is how many addresses API servers take for one endpoint.
	maxAddresses = 100
)

// offer is what the slices of a Service have to say: for each address type, the
// endpoints by the ports that they have in common.
type offer map[discoveryv1.AddressType]map[endpointutil.PortMapKey]*group

// group is endpoints of one address type that have their ports in common.
type group struct {
	ports     []discoveryv1.EndpointPort
	endpoints map[string]discoveryv1.Endpoint // by the workload's name
}

// selects tells whether slices are written for a Service at all.
func selects(svc *corev1.Service) bool {
	return svc.Spec.Type != corev1.ServiceTypeExternalName && len(svc.Spec.Selector) > 0
}

func isHeadless(svc *corev1.Service) bool { return svc.Spec.ClusterIP == corev1.ClusterIPNone }

// newOffer makes endpoints of the workloads that a Service selects. What can't
// be an endpoint is left out, and the problems say why.
func newOffer(svc *corev1.Service, workloads []*crd.ExternalWorkload) (offer, []string) {
	o := make(offer)
	for _, t := range addressTypes(svc) {
		o[t] = make(map[endpointutil.PortMapKey]*group)
	}
	ports := portSets{svc: svc, known: make(map[string]portSet)}
	var problems []string
	for _, w := range workloads {
		problem := func(format string, args ...any) {
			problems = append(problems, w.Name+": "+fmt.Sprintf(format, args...))
		}
		if w.Invalid != "" {
			problem("can't be read: %s", w.Invalid)
			continue
		}
		set := ports.of(w, problem)
		for t, addresses := range addressesOf(w, problem) {
			groups, ok := o[t]
			if !ok {
				continue
			}
			g := groups[set.key]
			if g == nil {
				g = &group{ports: set.ports, endpoints: make(map[string]discoveryv1.Endpoint)}
				groups[set.key] = g
			}
			g.endpoints[w.Name] = newEndpoint(svc, w, addresses)
		}
		if isHeadless(svc) && !isHostname(w.Name) {
			problem("is no DNS label and can't be a hostname")
		}
	}
	return o, problems
}

// addressTypes are those of the Service; one that doesn't say has both.
func addressTypes(svc *corev1.Service) []discoveryv1.AddressType {
	var types []discoveryv1.AddressType
	for _, f := range svc.Spec.IPFamilies {
		switch f {
		case corev1.IPv4Protocol:
			types = append(types, discoveryv1.AddressTypeIPv4)
		case corev1.IPv6Protocol:
			types = append(types, discoveryv1.AddressTypeIPv6)
		}
	}
	if len(types) == 0 {
		return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
	}
	return types
}

// addressesOf sorts a workload's addresses by type, in their order and once each,
// and leaves out those that API servers would refuse or that are no host's.
func addressesOf(w *crd.ExternalWorkload, problem func(string, ...any)) map[discoveryv1.AddressType][]string {
	found := make(map[discoveryv1.AddressType][]string, 1)
	for _, x := range w.Spec.WorkloadIPs {
		ip, err := netip.ParseAddr(x.IP)
		ip = ip.Unmap()
		switch {
		case err != nil || ip.Zone() != "":
			problem("%.80q is no IP address", x.IP)
			continue
		case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast():
			problem("%v can't be the address of an endpoint", ip)
			continue
		}
		t := discoveryv1.AddressTypeIPv4
		if ip.Is6() {
			t = discoveryv1.AddressTypeIPv6
		}
		switch text := ip.String(); {
		case slices.Contains(found[t], text):
		case len(found[t]) == maxAddresses:
			problem("%s is one address more than %d", text, maxAddresses)
		default:
			found[t] = append(found[t], text)
		}
	}
	return found
}

func newEndpoint(svc *corev1.Service, w *crd.ExternalWorkload, addresses []string) discoveryv1.Endpoint {
	ready := isReady(w)
	e := discoveryv1.Endpoint{
		Addresses:  addresses,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: new(false)},
		TargetRef:  &corev1.ObjectReference{Kind: workloadKind, Namespace: w.Namespace, Name: w.Name, UID: w.UID},
	}
	if zone := zoneOf(w); zone != "" {
		e.Zone = &zone
	}
	if isHeadless(svc) && isHostname(w.Name) {
		e.Hostname = &w.Name
	}
	return e
}

func isReady(w *crd.ExternalWorkload) bool {
	return slices.ContainsFunc(w.Status.Conditions, func(c crd.WorkloadCondition) bool {
		return c.Type == readyType && c.Status == string(corev1.ConditionTrue)
	})
}

func zoneOf(w *crd.ExternalWorkload) string { return w.Labels[corev1.LabelTopologyZone] }

func isHostname(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// portSet is ports as slices have them, and what tells them from others.
type portSet struct {
	key   endpointutil.PortMapKey
	ports []discoveryv1.EndpointPort
}

// portSets finds a Service's ports at workloads, most of which agree.
type portSets struct {
	svc   *corev1.Service
	known map[string]portSet // by the numbers that the Service's ports have
}

// of finds the ports of one workload. Those that it does not have are left out.
func (s *portSets) of(w *crd.ExternalWorkload, problem func(string, ...any)) portSet {
	var key strings.Builder
	numbers := make([]int32, len(s.svc.Spec.Ports)) // 0: it has no such port
	for i := range s.svc.Spec.Ports {
		p := &s.svc.Spec.Ports[i]
		if numbers[i] = portOf(w, p); numbers[i] == 0 {
			problem("has no port %s/%s", targetPort(p), protocolOf(p))
		}
		key.Write(binary.BigEndian.AppendUint32(nil, uint32(numbers[i])))
	}
	set, ok := s.known[key.String()]
	if !ok {
		set = newPortSet(s.svc, numbers)
		s.known[key.String()] = set
	}
	return set
}

func newPortSet(svc *corev1.Service, numbers []int32) portSet {
	ports := make([]discoveryv1.EndpointPort, 0, len(numbers))
	for i, n := range numbers {
		if n == 0 {
			continue
		}
		p := &svc.Spec.Ports[i]
		ports = append(ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &n, Protocol: new(protocolOf(p))})
	}
	return portSet{endpointutil.NewPortMapKey(ports), ports} // which sorts them
}

// portOf is the workload's port behind a Service's, 0 if it has none.
func portOf(w *crd.ExternalWorkload, p *corev1.ServicePort) int32 {
	target := targetPort(p)
	for _, x := range w.Spec.Ports {
		if x.Port < 1 || x.Port > 65535 || protocolOr(corev1.Protocol(x.Protocol)) != protocolOf(p) {
			continue
		}
		if target.Type == intstr.String && x.Name == target.StrVal || target.Type == intstr.Int && x.Port == target.IntVal {
			return x.Port
		}
	}
	return 0
}

// targetPort is what the port is called at the workload.
func targetPort(p *corev1.ServicePort) *intstr.IntOrString {
	if p.TargetPort == (intstr.IntOrString{}) {
		return new(intstr.FromInt32(p.Port))
	}
	return &p.TargetPort
}

func protocolOf(p *corev1.ServicePort) corev1.Protocol { return protocolOr(p.Protocol) }

// protocolOr is a protocol, or what it is where nothing is said.
func protocolOr(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}
