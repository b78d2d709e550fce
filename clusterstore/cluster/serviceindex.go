package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// service is a Service in the state, with its slices. There may be slices without
// Service, and the other way round.
type service struct {
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

func (s *state) serviceState(id federation.ServiceID) federation.ServiceState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.services[id].state()
}

func (e *service) state() federation.ServiceState {
	switch {
	case e == nil || e.spec == nil:
		return federation.Missing
	case e.spec.ExternalName:
		return federation.ExternalName
	}
	return federation.Present
}

// declares reports whether there is a Service by that name that declares the port.
func (s *state) declares(id federation.ServiceID, port uint16) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.services[id]
	return e.state() == federation.Present && e.spec.HasPort(port)
}

func (s *state) serviceFor(id federation.ServiceID) *service {
	e := s.services[id]
	if e == nil {
		e = &service{}
		s.services[id] = e
	}
	return e
}

// sweepService removes a service without spec and slices.
func (s *state) sweepService(id federation.ServiceID) {
	if e := s.services[id]; e != nil && e.spec == nil && len(e.slices) == 0 {
		delete(s.services, id)
	}
}

func serviceID(key string) federation.ServiceID {
	namespace, name := follow.SplitKey(key)
	return federation.ServiceID{Namespace: namespace, Name: name}
}

func (s *state) serviceStore() store[*Service] {
	return store[*Service]{
		state: s, same: (*Service).equal, set: s.setService,
		get: func(key string) (*Service, bool) {
			if e := s.services[serviceID(key)]; e != nil {
				return e.spec, e.spec != nil
			}
			return nil, false
		},
		keys: func(yield func(string) bool) {
			for id, e := range s.services {
				if e.spec != nil && !yield(follow.JoinKey(id.Namespace, id.Name)) {
					return
				}
			}
		},
		release: func(key string) {
			id := serviceID(key)
			s.setServiceAddresses(id, s.services[id].spec, nil)
		},
	}
}

// setService changes a Service.
func (s *state) setService(key string, to *Service, _ bool) {
	id := serviceID(key)
	e := s.serviceFor(id)
	from := e.spec
	s.own.setSelecting(id, to)
	s.exports.setService(key, from, to)
	e.spec = to
	if from != nil && to != nil && from.servedAs(to) {
		return
	}
	s.setServiceAddresses(id, from, to)
	s.setGateway(id, from.gateway(), to.gateway())
	s.sweepService(id)
	s.mark(id)
}

// setServiceAddresses follows a Service, its cluster IPs and its external addresses; nil: there is no Service.
func (s *state) setServiceAddresses(id federation.ServiceID, from, to *Service) {
	a := s.own
	if a == nil {
		return
	}
	s.markTopic(id.Namespace, Topic{Service: id})
	if from != nil {
		for _, ip := range from.ClusterIPs {
			unindex(a.services, ip, id)
			s.markOwner(id.Namespace, ip)
		}
		for _, ip := range from.External {
			unindex(a.exposed, ip, id)
		}
	}
	if to != nil {
		for _, ip := range to.ClusterIPs {
			a.services[ip] = append(a.services[ip], id)
			s.markOwner(id.Namespace, ip)
		}
		for _, ip := range to.External {
			a.exposed[ip] = append(a.exposed[ip], id)
		}
	}
}

// byHostname returns the first address with that hostname: of those that are served or,
// if none of these has it, of the others, which are not ready, or in a slice without
// ports. (The Pods of a StatefulSet find each other before they are ready.)
func (e *service) byHostname(hostname string) (*slice, *address) {
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
		Spec:       corev1.ServiceSpec{ClusterIP: o.Spec.ClusterIP, Selector: o.Spec.Selector, IPFamilies: o.Spec.IPFamilies},
	}
	for _, p := range o.Spec.Ports {
		kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port, TargetPort: p.TargetPort})
	}
	data, _ := kept.Marshal() // it has no error of its own
	return new(string(data))
}

func (s *Service) decodeSelecting(id federation.ServiceID) *corev1.Service {
	o := &corev1.Service{}
	if s.selecting != nil {
		_ = o.Unmarshal([]byte(*s.selecting)) // encodeSelecting has made it
	}
	o.Namespace, o.Name = id.Namespace, id.Name
	return o
}
