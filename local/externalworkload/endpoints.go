package externalworkload

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore/decode"
)

const (
	workloadKind = "ExternalWorkload"
	readyType    = "Ready" // the only condition of a workload that counts
	// maxAddresses is how many addresses API servers take for one endpoint.
	maxAddresses = 100
)

// endpointGroups are all endpoints that the slices of a Service must have: for each
// address type, by the ports that they have in common.
type endpointGroups map[discoveryv1.AddressType]map[portsKey]*group

// group is endpoints of one address type that have their ports in common.
type group struct {
	ports     []discoveryv1.EndpointPort
	endpoints map[string]discoveryv1.Endpoint // by the workload's name
}

// selects reports whether a Service gets slices at all. Namespace kube-system is like
// any other.
func selects(svc *corev1.Service) bool {
	return svc.Spec.Type != corev1.ServiceTypeExternalName && len(svc.Spec.Selector) > 0
}

func isHeadless(svc *corev1.Service) bool { return svc.Spec.ClusterIP == corev1.ClusterIPNone }

// newEndpointGroups makes endpoints of the workloads that a Service selects. It
// leaves out what can't be an endpoint, and reports that as problems. After the end
// of ctx the result is incomplete.
func newEndpointGroups(
	ctx context.Context, svc *corev1.Service, workloads []*decode.ExternalWorkload,
) (endpointGroups, leftOut) {
	byType := make(endpointGroups)
	left := leftOut{}
	for _, t := range addressTypes(svc) {
		byType[t] = make(map[portsKey]*group)
	}
	ports := usedPorts(svc, &left)
	for _, w := range workloads {
		if ctx.Err() != nil {
			break
		}
		problem := func(format string, args ...any) { left.add(w.Name, format, args...) }
		if w.Invalid != "" {
			problem("can't be read: %s", w.Invalid)
			continue
		}
		at := portsAt(ports, w, problem)
		key := newPortsKey(at)
		for t, addresses := range addressesOf(w, problem) {
			groups, ok := byType[t]
			if !ok {
				continue
			}
			g := groups[key]
			if g == nil {
				g = &group{ports: at, endpoints: make(map[string]discoveryv1.Endpoint)}
				groups[key] = g
			}
			g.endpoints[w.Name] = newEndpoint(svc, w, addresses)
		}
		if isHeadless(svc) && !isHostname(w.Name) {
			problem("is no DNS label and can't be a hostname")
		}
	}
	return byType, left
}

// addressTypes returns the Service's; without families it has both.
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

// noHost reports whether no host has an address: it is of the network 0.0.0.0/8, or the limited broadcast.
func noHost(ip netip.Addr) bool {
	return ip.Is4() && (ip.As4()[0] == 0 || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}))
}

// addressesOf returns a workload's addresses by type, in their order and once each.
// IPv4 addresses written as IPv6 ones count as IPv4. It leaves out those that API
// servers would refuse or that can't be a host's.
func addressesOf(w *decode.ExternalWorkload, problem func(string, ...any)) map[discoveryv1.AddressType][]string {
	found := make(map[discoveryv1.AddressType][]string, 1)
	for _, x := range w.Spec.WorkloadIPs {
		ip, err := netip.ParseAddr(x.IP)
		ip = ip.Unmap()
		switch {
		case err != nil || ip.Zone() != "":
			problem("%.80q is no IP address", x.IP)
			continue
		case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || noHost(ip):
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

// newEndpoint returns a workload's endpoint. publishNotReadyAddresses has no effect:
// the endpoint is ready if the workload is. In headless Services the workload's name
// is its hostname, unless that is no DNS label.
func newEndpoint(svc *corev1.Service, w *decode.ExternalWorkload, addresses []string) discoveryv1.Endpoint {
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

func isReady(w *decode.ExternalWorkload) bool {
	return slices.ContainsFunc(w.Status.Conditions, func(c decode.WorkloadCondition) bool {
		return c.Type == readyType && c.Status == string(corev1.ConditionTrue)
	})
}

func zoneOf(w *decode.ExternalWorkload) string { return w.Labels[corev1.LabelTopologyZone] }

func isHostname(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }
