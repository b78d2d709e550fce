package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// Core Endpoints, the predecessor of EndpointSlices.
type (
	//lint:ignore SA1019 it is read with --enable-endpoint-slices=false
	coreEndpoints = corev1.Endpoints
	//lint:ignore SA1019 a part of coreEndpoints
	coreEndpointSubset  = corev1.EndpointSubset
	coreEndpointAddress = corev1.EndpointAddress
)

// endpoints follows Endpoints, in place of EndpointSlices.
func (c *Cluster) endpoints() follow.Kind[*coreEndpoints, *slice] {
	return sliceKind(c, "endpoints", c.cfg.Client.Sources.Endpoints, func(o *coreEndpoints) (*slice, bool) {
		return compactEndpoints(o, c.cfg.own != nil), true
	})
}

// compactEndpoints keeps the addresses of an Endpoints object. They have no zones, and stand for no ExternalWorkloads.
func compactEndpoints(o *coreEndpoints, own bool) *slice {
	l := &slice{
		service: federation.ServiceID{Namespace: shared(o.Namespace), Name: strings.Clone(o.Name)},
		mirror:  readMirror(&o.ObjectMeta),
		subsets: make([]subset, 0, len(o.Subsets)),
	}
	r := endpointReader{namespace: o.Namespace, target: podTarget, own: own}
	for i := range o.Subsets {
		from := &o.Subsets[i]
		ports := make([]slicePort, 0, len(from.Ports))
		for _, p := range from.Ports {
			ports = appendSlicePort(ports, p.Name, p.Protocol, &p.Port)
		}
		list := make([]discoveryv1.Endpoint, 0, len(from.Addresses)+len(from.NotReadyAddresses))
		for n, addresses := range [...][]coreEndpointAddress{from.Addresses, from.NotReadyAddresses} {
			for k := range addresses {
				a := &addresses[k]
				list = append(list, discoveryv1.Endpoint{
					Addresses: []string{a.IP}, Hostname: &a.Hostname, NodeName: a.NodeName, TargetRef: a.TargetRef,
					Conditions: discoveryv1.EndpointConditions{Ready: new(n == 0)},
				})
			}
		}
		l.subsets = append(l.subsets, r.read(trim(ports), list))
	}
	return l
}
