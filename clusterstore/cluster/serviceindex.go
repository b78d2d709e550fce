package cluster

import (
	"slices"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// service is a Service in the state, with its slices. There may be slices without
// Service, and the other way round.
type service struct {
	spec   *Service // nil: there is no such Service
	slices []*slice // sorted by key
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
