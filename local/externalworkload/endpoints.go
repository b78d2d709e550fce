package externalworkload

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"isthmus/clusterstore/decode"
)

const (
	workloadKind = "ExternalWorkload"
	readyType    = "Ready" // the only relevant condition of a workload
	// maxAddresses is the maximum number of addresses that API servers accept in an endpoint.
	maxAddresses = 100
)

// endpointGroups holds all endpoints of a Service, grouped by address type and then by ports.
type endpointGroups map[discoveryv1.AddressType]map[portsKey]*group

type group struct {
	ports     []discoveryv1.EndpointPort
	endpoints map[string]discoveryv1.Endpoint // by name of the workload
}

// The fill method moves endpoints from the group's map to those slices of the group that have room.
// Slices that have to be written anyway are filled first.
func (g *group) fill(kept []*packed) {
	names := slices.Sorted(maps.Keys(g.endpoints))
	for _, written := range []bool{true, false} {
		for _, x := range kept {
			if n := min(len(names), maxEndpoints-len(x.endpoints)); x.group == g && x.differs == written && n > 0 {
				x.endpoints, x.differs = append(x.endpoints, g.take(names[:n])...), true
				names = names[n:]
			}
		}
	}
}

func (g *group) take(names []string) (list []discoveryv1.Endpoint) {
	for _, name := range names {
		list = append(list, g.endpoints[name])
		delete(g.endpoints, name)
	}
	return list
}

// The selects function reports whether the writer writes slices for a Service. Services in
// kube-system are not excluded.
func selects(svc *corev1.Service) bool {
	return svc.Spec.Type != corev1.ServiceTypeExternalName && len(svc.Spec.Selector) > 0
}

func isHeadless(svc *corev1.Service) bool { return svc.Spec.ClusterIP == corev1.ClusterIPNone }

// newEndpointGroups returns the endpoints for the workloads that a Service selects. Invalid
// workloads, addresses and ports are omitted and reported as problems. If ctx is canceled, the
// result is incomplete.
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
			problem("cannot be read: %s", w.Invalid)
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
			problem("is not a DNS label, so it cannot be a hostname")
		}
	}
	return byType, left
}

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

// noHost reports whether an address cannot belong to a host, because it is in 0.0.0.0/8 or is the
// limited broadcast address.
func noHost(ip netip.Addr) bool {
	return ip.Is4() && (ip.As4()[0] == 0 || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}))
}

// addressesOf returns the distinct addresses of a workload, grouped by type, in the order in which
// the workload lists them. IPv4-mapped IPv6 addresses are treated as IPv4. Addresses that API
// servers would reject, or that cannot belong to a host, are omitted.
func addressesOf(w *decode.ExternalWorkload, problem func(string, ...any)) map[discoveryv1.AddressType][]string {
	found := make(map[discoveryv1.AddressType][]string, 1)
	for _, x := range w.Spec.WorkloadIPs {
		ip, err := netip.ParseAddr(x.IP)
		ip = ip.Unmap()
		switch {
		case err != nil || ip.Zone() != "":
			problem("%.80q is not an IP address", x.IP)
			continue
		case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || noHost(ip):
			problem("%v cannot be the address of an endpoint", ip)
			continue
		}
		t := discoveryv1.AddressTypeIPv4
		if ip.Is6() {
			t = discoveryv1.AddressTypeIPv6
		}
		switch text := ip.String(); {
		case slices.Contains(found[t], text):
		case len(found[t]) == maxAddresses:
			problem("%s is left out, because the maximum is %d addresses", text, maxAddresses)
		default:
			found[t] = append(found[t], text)
		}
	}
	return found
}

// newEndpoint returns a workload's endpoint, which is ready if the workload is ready. The Service
// field publishNotReadyAddresses has no effect. In a headless Service, a workload name that is a
// DNS label becomes the endpoint's hostname.
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
