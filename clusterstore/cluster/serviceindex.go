package cluster

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// serviceIndex has the Services of a cluster with their slices. state.mu guards it.
type serviceIndex struct {
	state *state // fixed
	byID  map[federation.ServiceID]*serviceEntry
}

func newServiceIndex(s *state) serviceIndex {
	return serviceIndex{state: s, byID: make(map[federation.ServiceID]*serviceEntry)}
}

// serviceEntry is a Service in the state, with its slices. There may be slices without
// Service, and the other way round.
type serviceEntry struct {
	spec   *Service // nil: there is no such Service
	slices []*slice // sorted by key
}

// portRef translates a port of the Service. Ports of slices have the name of the
// Service's port; targetPort plays no role. A port that the Service does not declare
// for TCP is used as it is.
func (s *Service) portRef(port uint16) portRef {
	for _, p := range s.Ports {
		if p.Number == port {
			return portRef{name: p.Name, named: true}
		}
	}
	return portRef{number: port}
}

func (x *serviceIndex) stateOf(id federation.ServiceID) federation.ServiceState {
	x.state.mu.RLock()
	defer x.state.mu.RUnlock()
	return x.byID[id].state()
}

func (e *serviceEntry) state() federation.ServiceState {
	switch {
	case e == nil || e.spec == nil:
		return federation.Missing
	case e.spec.ExternalName:
		return federation.ExternalName
	}
	return federation.Present
}

// declares reports whether there is a Service by that name that declares the port.
func (x *serviceIndex) declares(id federation.ServiceID, port uint16) bool {
	x.state.mu.RLock()
	defer x.state.mu.RUnlock()
	e := x.byID[id]
	return e.state() == federation.Present && e.spec.HasPort(port)
}

func (x *serviceIndex) slicesOf(svc federation.ServiceID) []*slice {
	x.state.mu.RLock()
	defer x.state.mu.RUnlock()
	if e := x.byID[svc]; e != nil {
		return slices.Clone(e.slices)
	}
	return nil
}

func (x *serviceIndex) entry(id federation.ServiceID) *serviceEntry {
	e := x.byID[id]
	if e == nil {
		e = &serviceEntry{}
		x.byID[id] = e
	}
	return e
}

// sweep removes a service without spec and slices.
func (x *serviceIndex) sweep(id federation.ServiceID) {
	if e := x.byID[id]; e != nil && e.spec == nil && len(e.slices) == 0 {
		delete(x.byID, id)
	}
}

func compareServices(a, b federation.ServiceID) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func serviceID(key string) federation.ServiceID {
	namespace, name := follow.SplitKey(key)
	return federation.ServiceID{Namespace: namespace, Name: name}
}

func (x *serviceIndex) store() store[*Service] {
	get := func(key string) (*Service, bool) {
		if e := x.byID[serviceID(key)]; e != nil {
			return e.spec, e.spec != nil
		}
		return nil, false
	}
	keys := func(yield func(string) bool) {
		for id, e := range x.byID {
			if e.spec != nil && !yield(follow.JoinKey(id.Namespace, id.Name)) {
				return
			}
		}
	}
	release := func(key string) {
		id := serviceID(key)
		x.state.local.setServiceAddresses(id, x.byID[id].spec, nil)
	}
	return store[*Service]{
		state:   x.state,
		same:    (*Service).equal,
		get:     get,
		set:     x.set,
		keys:    keys,
		release: release,
	}
}

// set changes a Service.
func (x *serviceIndex) set(key string, to *Service, _ bool) {
	id := serviceID(key)
	e := x.entry(id)
	from := e.spec
	x.state.local.setSelecting(id, to)
	x.state.exports.setService(key, from, to)
	e.spec = to
	if from != nil && to != nil && from.servedAs(to) {
		return
	}
	x.state.local.setServiceAddresses(id, from, to)
	x.state.gateways.set(id, from.gateway(), to.gateway())
	x.sweep(id)
	x.state.mark(id)
}

// byHostname returns the first address with that hostname: of those that are served or,
// if none of these has it, of the others, which are not ready, or in a slice without
// ports. (The Pods of a StatefulSet find each other before they are ready.)
func (e *serviceEntry) byHostname(hostname string) (*slice, *address) {
	for _, ready := range []bool{true, false} {
		for _, l := range e.slices {
			for _, sub := range l.subsets {
				list := sub.addresses[:sub.ready]
				if !ready {
					list = sub.addresses[sub.ready:]
				}
				if i := slices.IndexFunc(list, func(a address) bool { return value(a.hostname) == hostname }); i >= 0 {
					return l, &list[i]
				}
			}
		}
	}
	return nil, nil
}

// encodeSelecting keeps what slices are made of; nil: the Service selects nothing. Encoded it takes some
// 400 bytes, and has no pointers that the garbage collector would follow.
func encodeSelecting(o *corev1.Service) *string {
	if o.Spec.Type == corev1.ServiceTypeExternalName || len(o.Spec.Selector) == 0 {
		return nil
	}
	kept := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{UID: o.UID, Labels: o.Labels, DeletionTimestamp: o.DeletionTimestamp},
		Spec: corev1.ServiceSpec{
			ClusterIP:  o.Spec.ClusterIP,
			Selector:   o.Spec.Selector,
			IPFamilies: o.Spec.IPFamilies,
		},
	}
	for _, p := range o.Spec.Ports {
		kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{
			Name:       p.Name,
			Protocol:   p.Protocol,
			Port:       p.Port,
			TargetPort: p.TargetPort,
		})
	}
	data, _ := kept.Marshal() // it has no error of its own
	return new(string(data))
}

func (s *Service) decodeSelecting(id federation.ServiceID) *corev1.Service {
	o := &corev1.Service{}
	if s.selecting != nil {
		_ = o.Unmarshal([]byte(*s.selecting)) // encodeSelecting has made it
	}
	o.Namespace = id.Namespace
	o.Name = id.Name
	return o
}
