package cluster

import (
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"

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
func (c *Cluster) endpoints() follow.Kind[*coreEndpoints, *sliceData] {
	return follow.Kind[*coreEndpoints, *sliceData]{
		Name: "endpoints", Needed: true,
		Source: c.cfg.Client.Sources.Endpoints,
		Compact: func(o *coreEndpoints) (*sliceData, bool) {
			return compactEndpoints(o, c.state.own != nil)
		},
		Into:   lockedStore[*sliceData]{c.state, c.state.sliceStore()},
		Refers: (*sliceData).refers,
		Shared: (*sliceData).shared,
		Same:   (*sliceData).same,
	}
}

// compactEndpoints keeps the addresses of an Endpoints object; hosts: also for profiles
// that ask for a hostname. They have no zones.
func compactEndpoints(o *coreEndpoints, hosts bool) (*sliceData, bool) {
	d := &sliceData{
		service: federation.ServiceID{Namespace: shared(o.Namespace), Name: strings.Clone(o.Name)},
		mirror:  readMirror(&o.ObjectMeta),
	}
	var kept subset
	var lists [][]unready
	var left leftOuts
	for i := range o.Subsets {
		from := &o.Subsets[i]
		sub := subset{addresses: make([]address, 0, len(from.Addresses))}
		for _, p := range from.Ports {
			number, _ := portNumber(&p.Port)
			sub.ports = append(sub.ports, slicePort{name: shared(p.Name), number: number})
		}
		for k := range from.Addresses {
			sub.addCore(&from.Addresses[k], o.Namespace, &left)
		}
		var list []unready
		for k := range from.NotReadyAddresses {
			e := &from.NotReadyAddresses[k]
			if hosts && e.Hostname != "" {
				kept.addCore(e, o.Namespace, nil)
			}
			if target, ok := podTarget(e.TargetRef, o.Namespace); ok {
				list = newUnready(target, e.Hostname, "", value(e.NodeName)).addTo(list, e.TargetRef, &left, e.IP)
			} else {
				left.add(e.TargetRef, federation.NotReady, e.IP)
			}
		}
		lists = append(lists, list)
		sub.ports, sub.addresses = slices.Clip(sub.ports), trim(sub.addresses)
		d.subsets = append(d.subsets, sub)
	}
	d.subsets = slices.Clip(d.subsets)
	d.setNotServed(kept.addresses, left, lists...)
	return d, true
}

func (s *subset) addCore(e *coreEndpointAddress, namespace string, left *leftOuts) {
	target, ok := podTarget(e.TargetRef, namespace)
	if !ok {
		left.add(e.TargetRef, federation.OtherTarget, e.IP)
		return
	}
	a := address{target: target, place: unique.Make(place{})}
	if e.Hostname != "" {
		a.hostname = new(strings.Clone(e.Hostname))
	}
	s.add(a, e.TargetRef, left, e.IP)
}
