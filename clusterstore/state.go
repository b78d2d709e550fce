package clusterstore

import (
	"slices"
	"sync"
	"time"

	"isthmus/clusterstore/follow"
	"isthmus/federation"
)

// state is what is known of one cluster, indexed so that every event finds the
// services that it touches. It does no IO.
//
// Objects refer to each other by pointer. What is referred to but not known
// (yet) has a placeholder, so that objects may come in any order: a slice whose
// Pod is unknown leaves that endpoint out, and is joined again when it comes.
type state struct {
	// fixed
	cluster             federation.ClusterName
	trustDomain         string
	controllerNamespace string
	dirty               *dirty[federation.ServiceID]
	addresses           *addresses // nil: nobody asks for addresses

	mu          sync.RWMutex
	live        bool      // under mu: somebody may have read, so changes are told
	now         time.Time // under mu: when the event being handled came
	clock       uint64    // under mu: the newest stamp; never used twice
	malformed   int       // under mu: pods whose proxy's addresses can't be read
	services    map[federation.ServiceID]*service
	slices      map[string]*slice
	pods        map[string]*pod                    // and ExternalWorkloads
	servers     map[string]map[string]*serverFacts // by namespace and name: those that make ports opaque, or can't be read
	unusable    map[string]string                  // why objects that can't be used can't
	replicaSets map[string]*owner
	jobs        map[string]*owner
	zones       map[string]string // of nodes
}

// service is a Service and the slices that name it; one of both may be missing.
type service struct {
	spec   *Service // nil: there is no such Service
	slices []*slice // sorted by key
}

// slice is one EndpointSlice, or Endpoints object.
type slice struct {
	key   string
	stamp uint64     // new whenever anything that it is joined from has changed
	data  *sliceData // its addresses refer to pods
}

func newState(cluster federation.ClusterName, trustDomain, controllerNamespace string) *state {
	return &state{
		cluster:             cluster,
		trustDomain:         trustDomain,
		controllerNamespace: controllerNamespace,
		dirty:               newDirty[federation.ServiceID](),
		services:            make(map[federation.ServiceID]*service),
		slices:              make(map[string]*slice),
		pods:                make(map[string]*pod),
		servers:             make(map[string]map[string]*serverFacts),
		unusable:            make(map[string]string),
		replicaSets:         make(map[string]*owner),
		jobs:                make(map[string]*owner),
		zones:               make(map[string]string),
	}
}

// lock locks the state to handle one event. The caller unlocks mu.
func (s *state) lock() {
	now := time.Now()
	s.mu.Lock()
	s.now = now
}

// kind is how objects of one kind get into the state. state.mu is held.
type kind[T any] struct {
	put  func(key string, value T) follow.Effect
	drop func(key string) (existed bool)
	// leave, if set, takes the addresses from an object that is there.
	leave func(key string)
	keys  func(yield func(key string) bool)
}

// locked is the [follow.Store] of a kind: each of its methods holds state.mu.
type locked[T any] struct {
	state *state
	kind  kind[T]
}

func (l locked[T]) Put(key string, value T) follow.Effect {
	l.state.lock()
	defer l.state.mu.Unlock()
	return l.kind.put(key, value)
}

func (l locked[T]) Drop(key string) (existed bool) {
	l.state.lock()
	defer l.state.mu.Unlock()
	return l.kind.drop(key)
}

func (l locked[T]) Leave(key string) {
	if l.kind.leave == nil {
		return
	}
	l.state.lock()
	defer l.state.mu.Unlock()
	l.kind.leave(key)
}

func (l locked[T]) Keys(yield func(string) bool) {
	l.state.mu.RLock()
	defer l.state.mu.RUnlock()
	l.kind.keys(yield)
}

// goLive: from now on changes are told.
func (s *state) goLive() {
	s.mu.Lock()
	s.live = true
	s.mu.Unlock()
}

func (s *state) malformedProxies() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.malformed
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

// mark notes that a service is to be read again.
func (s *state) mark(id federation.ServiceID) {
	if s.live {
		s.dirty.add(id, s.now)
	}
	s.markInstances(id)
}

// touch notes that a slice is to be joined again.
func (s *state) touch(l *slice) {
	s.clock++
	l.stamp = s.clock
	s.mark(l.data.service)
}

func (s *state) serviceFor(id federation.ServiceID) *service {
	e := s.services[id]
	if e == nil {
		e = &service{}
		s.services[id] = e
	}
	return e
}

// sweepService forgets a service that nothing is known of any more.
func (s *state) sweepService(id federation.ServiceID) {
	if e := s.services[id]; e != nil && e.spec == nil && len(e.slices) == 0 {
		delete(s.services, id)
	}
}

func serviceID(key string) federation.ServiceID {
	namespace, name := follow.SplitKey(key)
	return federation.ServiceID{Namespace: namespace, Name: name}
}

func (s *state) serviceKind() kind[*Service] {
	return kind[*Service]{
		put: func(key string, v *Service) follow.Effect {
			id := serviceID(key)
			e := s.serviceFor(id)
			if e.spec != nil && e.spec.equal(v) {
				return follow.Same
			}
			result := follow.Replaced
			if e.spec == nil {
				result = follow.Added
			}
			s.moveService(id, e.spec, v)
			e.spec = v
			s.mark(id)
			return result
		},
		drop: func(key string) bool {
			id := serviceID(key)
			e := s.services[id]
			if e == nil || e.spec == nil {
				return false
			}
			s.moveService(id, e.spec, nil)
			e.spec = nil
			s.sweepService(id)
			s.mark(id)
			return true
		},
		leave: func(key string) {
			id := serviceID(key)
			s.moveService(id, s.services[id].spec, nil)
		},
		keys: func(yield func(string) bool) {
			for id, e := range s.services {
				if e.spec != nil && !yield(follow.JoinKey(id.Namespace, id.Name)) {
					return
				}
			}
		},
	}
}

// without removes an element, not keeping order; an empty list takes no space.
func without[T comparable](list []T, x T) []T {
	i := slices.Index(list, x)
	if i < 0 {
		return list
	}
	last := len(list) - 1
	if last == 0 {
		return nil
	}
	list[i] = list[last]
	var zero T
	list[last] = zero
	return list[:last]
}

func keysOf[V any](m map[string]V, known func(V) bool) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key, v := range m {
			if known(v) && !yield(key) {
				return
			}
		}
	}
}
