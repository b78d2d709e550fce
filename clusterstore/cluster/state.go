package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"isthmus/federation"
	"isthmus/internal/pace"
)

// state holds the cached objects of one cluster. The indexes let each event find the services that
// the event affects. The state does no I/O.
//
// Objects refer to each other by pointer. If an object refers to an object that has not been read,
// a placeholder takes its place, so objects may arrive in any order. For example, a slice leaves
// out an endpoint while its Pod is missing, and is joined again when the Pod arrives.
//
// Each index is one type with all its methods. Each kind's [follow.Store] looks up objects by key,
// to find the objects that a new list no longer contains. The indexes have these other users:
//
//   - services: each Service and its slices, by name. Readers look up their Service at every read.
//     Pages and writers of slices also use this index. An entry with neither a Service nor slices
//     is removed.
//   - slices: each EndpointSlice or Endpoints object, by key. Each slice has a stamp, which changes
//     with every object behind the slice. Readers compare stamps to find the slices to join again.
//     Readers reach slices through services.
//   - pods: Pods and ExternalWorkloads, by key, in 64 shards by namespace. When a slice is put, it
//     gets a pointer to each of its Pods. Each Pod lists its slices, which a change of the Pod
//     touches. sliceIndex.attachPods and detachPods keep both sides consistent, and podIndex.sweep
//     removes unused placeholders.
//   - owners: ReplicaSets and Jobs, by key, each with its Pods. A change of an owner touches its
//     Pods. ownerIndex.attach and detach keep both sides consistent.
//   - policies: the Servers that make ports opaque, by key and by namespace and name. For each
//     namespace, the index groups Pods with equal labels and ports, and stores the opaque ports of
//     each group. The join looks up each Pod. The methods setServer and evaluate update the index
//     after a change of a Server. The method regroup updates the index after a change of a Pod.
//   - nodes: the zone and region of each Node, by name, and the number of Nodes in each region. In
//     the local cluster, the index also has the addresses of Nodes. Cluster.Region uses this index.
//   - gateways: the Services that are Linkerd gateways, by name. Every reconcile of a link reads
//     them.
//   - unusable: the reasons why objects cannot be used, by kind and key, for Cluster.Health. Each
//     new version of an object updates its reason.
//   - exports (only with Config.Exports): the values that the hooks returned for Services and
//     ServiceExports, and in the local cluster for Namespaces and ServiceImports. Cluster.Exports
//     joins ServiceExports with Services of the same name, whichever arrives first, so the values
//     of all Services are cached. Listing Services again for each ServiceExport would take less
//     memory. However, anyone who may write ServiceExports could then cause endless lists.
//   - local, only in the local cluster: the addresses of Pods, ExternalWorkloads, Services and
//     Nodes; ServiceProfiles; and what EndpointSlices for ExternalWorkloads are made of. Profiles
//     and the pages read them through the methods of [Local]. Updates mark the profiles that have
//     to be read again.
type state struct {
	// fixed
	cluster             federation.ClusterName
	trustDomain         string
	controllerNamespace string
	dirty               *pace.Dirty[federation.ServiceID] // services to report, by namespace
	local               *Local                            // nil for a linked cluster

	// mu guards the following fields.
	mu       sync.RWMutex
	live     bool      // the first sync is complete, so changes are reported
	now      time.Time // when the current event arrived
	services serviceIndex
	slices   sliceIndex
	pods     podIndex // also contains ExternalWorkloads
	owners   ownerIndex
	policies policyIndex
	nodes    nodeIndex
	gateways gatewayIndex
	unusable map[string]string // reasons why objects cannot be used, by kind and key
	exports  *exportIndex      // nil if nothing is cached for exports
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

// lock locks the state to handle one event. The caller must unlock mu.
func (s *state) lock() {
	now := time.Now()
	s.mu.Lock()
	s.now = now
}

// store is the [follow.Store] of one kind of object. The methods of store lock the state. The
// functions in the fields of store are called with state.mu held, except prepare.
type store[T any] struct {
	state *state
	get   func(key string) (T, bool) // may be called with state.mu held shared
	keys  func(yield func(key string) bool)
	same  func(a, b T) bool
	// set replaces the object that get returns with to. If exists is false, set removes the object,
	// and to is the zero value.
	set     func(key string, to T, exists bool)
	prepare func(key string, to T) T // if set, completes an object before it is put
	release func(key string)         // if set, releases the addresses of an object that will be dropped
}

// mapStore returns the store of a kind whose objects are in a map. changed is called after each
// change of the map. For a new object, before is the zero value. For a removed object, now is the
// zero value.
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

// PutTogether makes all puts of f visible to readers in one step.
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

// reportChanges makes the state report changes from now on. All policies must have been evaluated
// before.
func (s *state) reportChanges() {
	s.lock()
	defer s.mu.Unlock()
	s.live = true
	for namespace := range s.policies.byNamespace { // policies that have changed in the meantime
		s.policies.mark(namespace)
	}
	s.local.markCrowded()
}

// mark records that a service may have changed.
func (s *state) mark(id federation.ServiceID) {
	if s.live {
		s.dirty.Add(id.Namespace, id, s.now)
	}
	s.local.markInstances(id)
}

// without removes x from list and does not preserve the order. It returns nil for an empty list, to
// release the memory.
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

// setUnusable records why an object cannot be used. An empty reason means that the object is usable
// or has been deleted.
func (s *state) setUnusable(object, reason string) {
	if reason == "" {
		delete(s.unusable, object)
	} else {
		s.unusable[object] = reason
	}
}

// unusableObjects returns the unusable objects with their reasons, sorted. It also returns the
// number of ServiceProfiles that are rejected as a whole.
func (s *state) unusableObjects() (list []string, profiles int) {
	s.mu.RLock()
	reasons := maps.Clone(s.unusable) // sorted without the lock, because there may be many
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
