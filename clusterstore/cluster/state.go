package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"isthmus/clusterstore/fair"
	"isthmus/clusterstore/follow"
	"isthmus/federation"
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
	dirty               *fair.Dirty[federation.ServiceID] // services to be reported, by namespace
	dirtyPolicies       *fair.Dirty[string]               // namespaces whose policy is to be evaluated
	own                 *ownIndex                         // nil: it is a linked cluster

	// All under mu.
	mu          sync.RWMutex
	live        bool      // the first sync is over: changes are reported
	now         time.Time // when the event being handled came
	clock       uint64    // the newest stamp; never used twice
	malformed   int       // Pods whose proxy's addresses can't be read
	traits      string    // of the Pod that was put last
	services    map[federation.ServiceID]*service
	slices      map[string]*slice
	pods        *podIndex          // and ExternalWorkloads
	policies    map[string]*policy // by namespace: its Servers, and what they say of its Pods
	unusable    map[string]string  // reasons why objects can't be used, by kind and key
	replicaSets map[string]*owner
	jobs        map[string]*owner
	nodes       nodeIndex
	gateways    gateways
	exports     *exportIndex // nil: nothing is kept for it
}

func newState(cluster federation.ClusterName, trustDomain, controllerNamespace string) *state {
	return &state{
		cluster:             cluster,
		trustDomain:         trustDomain,
		controllerNamespace: controllerNamespace,
		dirty:               fair.NewDirty[federation.ServiceID](),
		dirtyPolicies:       fair.NewDirty[string](),
		services:            make(map[federation.ServiceID]*service),
		slices:              make(map[string]*slice),
		pods:                newPodIndex(),
		policies:            make(map[string]*policy),
		unusable:            make(map[string]string),
		replicaSets:         make(map[string]*owner),
		jobs:                make(map[string]*owner),
		nodes:               newNodeIndex(),
		gateways:            gateways{byService: make(map[federation.ServiceID]*Gateway)},
	}
}

// lock locks the state to handle one event. The caller unlocks mu.
func (s *state) lock() {
	now := time.Now()
	s.mu.Lock()
	s.now = now
}

// storeFuncs puts objects of one kind into the state, and drops them. state.mu is held
// when they are called.
type storeFuncs[T any] struct {
	put func(key string, value T) follow.Effect
	// prepare is for kinds that have no put: what it returns puts the object. state.mu is not held when
	// prepare is called.
	prepare func(key string, value T) (put func() follow.Effect)
	get     func(key string) (T, bool) // state.mu is held shared
	drop    func(key string) (existed bool)
	// prepareDrop, if set, releases the addresses of an object.
	prepareDrop func(key string)
	keys        func(yield func(key string) bool)
}

// newStoreFuncs returns those of a kind of which nothing but get and set know how it is kept. set puts
// an object in place of the one that get returns, or removes that: then to is the zero value.
func newStoreFuncs[T any](get func(key string) (T, bool), same func(a, b T) bool, set func(key string, to T, exists bool), keys func(yield func(string) bool)) storeFuncs[T] {
	return storeFuncs[T]{
		put: func(key string, to T) follow.Effect {
			before, existed := get(key)
			switch {
			case !existed:
				set(key, to, true)
				return follow.Added
			case same(before, to):
				return follow.Same
			}
			set(key, to, true)
			return follow.Replaced
		},
		get: get,
		drop: func(key string) bool {
			_, existed := get(key)
			if existed {
				var none T
				set(key, none, false)
			}
			return existed
		},
		keys: keys,
	}
}

// lockedStore is the [follow.Store] of a kind of object. It locks state.mu.
type lockedStore[T any] struct {
	state *state
	funcs storeFuncs[T]
}

func (l lockedStore[T]) Put(key string, value T) follow.Effect {
	put := func() follow.Effect { return l.funcs.put(key, value) }
	if l.funcs.prepare != nil {
		put = l.funcs.prepare(key, value)
	}
	l.state.lock()
	defer l.state.mu.Unlock()
	return put()
}

func (l lockedStore[T]) Get(key string) (T, bool) {
	l.state.mu.RLock()
	defer l.state.mu.RUnlock()
	return l.funcs.get(key)
}

// PutTogether makes f's puts one step to readers.
func (l lockedStore[T]) PutTogether(f func(put func(string, T) follow.Effect)) {
	l.state.lock()
	defer l.state.mu.Unlock()
	f(l.funcs.put)
}

func (l lockedStore[T]) Drop(key string) (existed bool) {
	l.state.lock()
	defer l.state.mu.Unlock()
	return l.funcs.drop(key)
}

func (l lockedStore[T]) PrepareDrop(key string) {
	if l.funcs.prepareDrop == nil {
		return
	}
	l.state.lock()
	defer l.state.mu.Unlock()
	l.funcs.prepareDrop(key)
}

func (l lockedStore[T]) Keys(yield func(string) bool) {
	l.state.mu.RLock()
	defer l.state.mu.RUnlock()
	l.funcs.keys(yield)
}

// goLive evaluates all policies, and makes the state report changes from now on.
func (s *state) goLive() {
	s.mu.RLock()
	namespaces := slices.Collect(maps.Keys(s.policies))
	s.mu.RUnlock()
	for _, namespace := range namespaces {
		s.evaluatePolicy(namespace, time.Time{})
	}
	s.lock()
	defer s.mu.Unlock()
	s.live = true
	for namespace := range s.policies { // what has changed meanwhile
		s.markPolicy(namespace)
	}
}

func (s *state) malformedProxies() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.malformed
}

// mark reports that a service may have changed.
func (s *state) mark(id federation.ServiceID) {
	if s.live {
		s.dirty.Add(id.Namespace, id, s.now)
	}
	s.markInstances(id)
}

// touch gives a slice a new stamp, so that readers join it again, and marks its
// service.
func (s *state) touch(l *slice) {
	s.clock++
	l.stamp = s.clock
	s.mark(l.data.service)
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

func keysOf[V any](m map[string]V, known func(V) bool) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for key, v := range m {
			if known(v) && !yield(key) {
				return
			}
		}
	}
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
	if s.own != nil {
		profiles = s.own.rejected
	}
	s.mu.RUnlock()
	list = make([]string, 0, len(reasons))
	for _, object := range slices.Sorted(maps.Keys(reasons)) {
		list = append(list, object+": "+reasons[object])
	}
	return list, profiles
}
