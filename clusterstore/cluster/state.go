package cluster

import (
	"maps"
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
	// prepareDrop, if set, takes the addresses from an object that is there.
	prepareDrop func(key string)
	keys        func(yield func(key string) bool)
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

func (l locked[T]) PrepareDrop(key string) {
	if l.kind.prepareDrop == nil {
		return
	}
	l.state.lock()
	defer l.state.mu.Unlock()
	l.kind.prepareDrop(key)
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

// note remembers why an object can't be used, or, without a reason, that it can
// or is gone.
func (s *state) note(object, reason string) {
	if reason == "" {
		delete(s.unusable, object)
	} else {
		s.unusable[object] = reason
	}
}

// unusableObjects says which objects can't be used and why, sorted, and how many
// ServiceProfiles can't be used at all.
func (s *state) unusableObjects() (list []string, profiles int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list = make([]string, 0, len(s.unusable))
	for _, object := range slices.Sorted(maps.Keys(s.unusable)) {
		list = append(list, object+": "+s.unusable[object])
	}
	if s.addresses != nil {
		profiles = s.addresses.rejected
	}
	return list, profiles
}
