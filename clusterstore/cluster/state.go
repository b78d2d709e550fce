package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"isthmus/federation"
	"isthmus/internal/pace"
)

// state has the kept objects of one cluster, indexed so that every event finds the
// services that it affects. It does no IO.
//
// Objects refer to each other by pointer. An object that is referred to but has not
// been read (yet) has a placeholder, so that objects may come in any order: a slice
// whose Pod is missing leaves that endpoint out, and is joined again when it comes.
type state struct {
	// fixed
	cluster             federation.ClusterName
	trustDomain         string
	controllerNamespace string
	dirty               *pace.Dirty[federation.ServiceID] // services to be reported, by namespace
	local               *Local                            // nil if it is a linked cluster

	// All under mu.
	mu       sync.RWMutex
	live     bool      // the first sync is over: changes are reported
	now      time.Time // when the event being handled came
	services serviceIndex
	slices   sliceIndex
	pods     podIndex // and ExternalWorkloads
	owners   ownerIndex
	policies policyIndex
	nodes    nodeIndex
	gateways gatewayIndex
	unusable map[string]string // reasons why objects can't be used, by kind and key
	exports  *exportIndex      // nil: nothing is kept for it
}

func newState(cluster federation.ClusterName, trustDomain, controllerNamespace string) *state {
	s := &state{
		cluster:             cluster,
		trustDomain:         trustDomain,
		controllerNamespace: controllerNamespace,
		dirty:               pace.NewDirty[federation.ServiceID](),
		unusable:            make(map[string]string),
	}
	s.services = newServiceIndex(s)
	s.slices = newSliceIndex(s)
	s.pods = newPodIndex(s)
	s.owners = newOwnerIndex(s)
	s.policies = newPolicyIndex(s)
	s.nodes = newNodeIndex(s)
	s.gateways = newGatewayIndex()
	return s
}

// lock locks the state to handle one event. The caller unlocks mu.
func (s *state) lock() {
	now := time.Now()
	s.mu.Lock()
	s.now = now
}

// store is the [follow.Store] of a kind of object. It locks the state: its functions are called with state.mu held,
// except prepare.
type store[T any] struct {
	state *state
	get   func(key string) (T, bool) // state.mu is held shared
	keys  func(yield func(key string) bool)
	same  func(a, b T) bool
	// set puts an object in place of the one that get returns, or removes that: then to is the zero value.
	set     func(key string, to T, exists bool)
	prepare func(key string, to T) T // if set, completes an object that is to be put
	release func(key string)         // if set, releases the addresses of an object that is to be dropped
}

// mapStore is the store of a kind that is a map. changed is called after each change of it, and gets zero values for
// what is not there.
func mapStore[T any](
	s *state, all map[string]T, same func(a, b T) bool, changed func(key string, before, now T),
) store[T] {
	get := func(key string) (T, bool) {
		value, exists := all[key]
		return value, exists
	}
	set := func(key string, to T, exists bool) {
		before := all[key]
		if exists {
			all[key] = to
		} else {
			delete(all, key)
		}
		changed(key, before, to)
	}
	return store[T]{state: s, same: same, keys: maps.Keys(all), get: get, set: set}
}

func (s store[T]) Put(key string, to T) {
	if s.prepare != nil {
		to = s.prepare(key, to)
	}
	s.state.lock()
	defer s.state.mu.Unlock()
	s.put(key, to)
}

func (s store[T]) put(key string, to T) {
	if before, existed := s.get(key); !existed || !s.same(before, to) {
		s.set(key, to, true)
	}
}

func (s store[T]) Get(key string) (T, bool) {
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	return s.get(key)
}

// PutTogether makes f's puts one step to readers.
func (s store[T]) PutTogether(f func(put func(string, T))) {
	s.state.lock()
	defer s.state.mu.Unlock()
	f(s.put)
}

func (s store[T]) Drop(key string) {
	s.state.lock()
	defer s.state.mu.Unlock()
	var none T
	s.set(key, none, false)
}

func (s store[T]) PrepareDrop(key string) {
	if s.release == nil {
		return
	}
	s.state.lock()
	defer s.state.mu.Unlock()
	s.release(key)
}

func (s store[T]) Keys(yield func(string) bool) {
	s.state.mu.RLock()
	defer s.state.mu.RUnlock()
	s.keys(yield)
}

// reportChanges makes the state report changes from now on. All policies have been evaluated.
func (s *state) reportChanges() {
	s.lock()
	defer s.mu.Unlock()
	s.live = true
	for namespace := range s.policies.byNamespace { // what has changed meanwhile
		s.policies.mark(namespace)
	}
	s.local.markCrowded()
}

// mark reports that a service may have changed.
func (s *state) mark(id federation.ServiceID) {
	if s.live {
		s.dirty.Add(id.Namespace, id, s.now)
	}
	s.local.markInstances(id)
}

// without removes an element and does not keep the order. An empty list is nil, to
// free its memory.
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

// setUnusable records why an object can't be used. Without a reason it is usable, or
// gone.
func (s *state) setUnusable(object, reason string) {
	if reason == "" {
		delete(s.unusable, object)
	} else {
		s.unusable[object] = reason
	}
}

// unusableObjects returns the objects that can't be used with the reasons, sorted, and
// the number of ServiceProfiles that can't be used at all.
func (s *state) unusableObjects() (list []string, profiles int) {
	s.mu.RLock()
	reasons := maps.Clone(s.unusable) // there may be many: they are sorted without the lock
	if s.local != nil {
		profiles = s.local.profiles.rejected
	}
	s.mu.RUnlock()
	list = make([]string, 0, len(reasons))
	for _, object := range slices.Sorted(maps.Keys(reasons)) {
		list = append(list, object+": "+reasons[object])
	}
	return list, profiles
}
