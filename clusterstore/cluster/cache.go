package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"isthmus/federation"
	"isthmus/internal/pace"
)

// cache holds the cached objects of one cluster. Event handlers use the indexes of a cache to find
// the services that an event affects. The cache does not perform I/O.
//
// Cached objects refer to each other through pointers. Objects may arrive in any order, because a
// placeholder represents an object that has not been read yet. While the Pod of an endpoint is
// missing, readers omit the endpoint. When the missing Pod arrives, readers process the endpoint's
// slice again.
//
// The services index maps the name of each Service to the Service and its slices. An entry of the
// services index is removed when it contains neither a Service nor slices.
//
// The slices index maps the key of each EndpointSlice or Endpoints object to the cached slice. Each
// slice has a stamp, which changes whenever an object on which the slice depends changes. Readers
// compare stamps, and process only the slices whose stamps have changed.
//
// The pods index maps the key of each Pod or ExternalWorkload to the cached object. The pods index
// is divided into 64 shards. Slices and Pods point to each other, so that a change to a Pod
// invalidates its slices. The attachPods and detachPods methods of sliceIndex keep the pointers in
// both directions consistent. The podIndex.sweep method removes unused placeholders.
//
// The owners index maps the key of each ReplicaSet or Job to the cached object, which contains
// pointers to its Pods. A change to an owner invalidates its Pods. The attach and detach methods of
// ownerIndex keep the pointers between owners and Pods consistent.
//
// The policies index contains the Servers that make ports opaque, by key and by namespace. For each
// namespace, the policies index contains sets of Pods, and the opaque ports of each set. To find
// the opaque ports of a Pod, a reader looks up the set to which the Pod belongs. After a change to
// a Server, the setServer and evaluate methods update the sets of Pods. After a change to a Pod,
// the regroup method updates the sets of Pods.
//
// The nodes index maps the name of each Node to the Node's zone and region. The nodes index also
// contains the number of Nodes in each region. In the local cluster, the nodes index contains the
// addresses of Nodes as well.
//
// The gateways index contains the Services that are Linkerd gateways, by name. The map named
// unusable maps the kind and key of each unusable object to the reason why the object cannot be
// used. Cluster.Health returns these reasons.
//
// If Config.Exports is set, the exports index contains the results of the export hooks. For each
// Service and ServiceExport, a hook computes the value that is cached. In the local cluster,
// another hook computes the cached value for each ServiceImport. In the local cluster, the exports
// index also records which Namespaces are being deleted. The result of ExportHooks.Service is
// cached for every Service, because a ServiceExport may arrive later than its Service. If each new
// ServiceExport made Isthmus list all Services again, anyone who may create ServiceExports could
// trigger an endless series of list requests.
//
// The local field, which is set only in the local cluster, contains the ServiceProfiles, and the
// addresses of Pods, ExternalWorkloads, Services and Nodes. The local field also contains the data
// from which EndpointSlices for ExternalWorkloads are created. After a change to a ServiceProfile,
// to a Service, or to the addresses of a Pod or ExternalWorkload, the cluster calls
// LocalConfig.ProfileChanged.
type cache struct {
	cluster             federation.ClusterName
	trustDomain         string
	controllerNamespace string
	dirty               *pace.Dirty[federation.ServiceID] // services to report, by namespace
	local               *Local                            // nil for a linked cluster

	// mu guards the following fields.
	mu       sync.RWMutex
	live     bool      // the first sync is complete, and changes are reported
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

func newCache(cluster federation.ClusterName, trustDomain, controllerNamespace string) *cache {
	c := &cache{
		cluster:             cluster,
		trustDomain:         trustDomain,
		controllerNamespace: controllerNamespace,
		dirty:               pace.NewDirty[federation.ServiceID](),
		unusable:            make(map[string]string),
	}
	c.services = newServiceIndex(c)
	c.slices = newSliceIndex(c)
	c.pods = newPodIndex(c)
	c.owners = newOwnerIndex(c)
	c.policies = newPolicyIndex(c)
	c.nodes = newNodeIndex(c)
	c.gateways = newGatewayIndex()
	return c
}

// The caller must unlock mu afterwards.
func (c *cache) lock() {
	now := time.Now()
	c.mu.Lock()
	c.now = now
}

// store is the [follow.Store] for one kind of object. The methods of a store lock the cache. All
// function fields of a store, except prepare, are called with cache.mu held.
type store[T any] struct {
	cache *cache
	get   func(key string) (T, bool) // may be called with a read lock on cache.mu
	keys  func(yield func(key string) bool)
	same  func(a, b T) bool
	// The set function stores an object, or removes the object if it no longer exists.
	set     func(key string, to T, exists bool)
	prepare func(key string, to T) T // if set, completes an object before set stores it
	release func(key string)         // if set, releases the addresses of an object that is about to be removed
}

// mapStore returns the store for a kind whose objects are stored in a map. After each change to the
// map, the store calls its callback with the previous and current values. The previous value of a
// new object and the current value of a removed object are zero values.
func mapStore[T any](
	c *cache, all map[string]T, same func(a, b T) bool, changed func(key string, before, now T),
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
	return store[T]{cache: c, same: same, keys: maps.Keys(all), get: get, set: set}
}

func (s store[T]) Put(key string, to T) {
	if s.prepare != nil {
		to = s.prepare(key, to)
	}
	s.cache.lock()
	defer s.cache.mu.Unlock()
	s.put(key, to)
}

func (s store[T]) put(key string, to T) {
	if before, existed := s.get(key); !existed || !s.same(before, to) {
		s.set(key, to, true)
	}
}

func (s store[T]) Get(key string) (T, bool) {
	s.cache.mu.RLock()
	defer s.cache.mu.RUnlock()
	return s.get(key)
}

// PutTogether calls f with a function that stores objects. All objects that f stores become visible
// to readers at the same moment.
func (s store[T]) PutTogether(f func(put func(string, T))) {
	s.cache.lock()
	defer s.cache.mu.Unlock()
	f(s.put)
}

func (s store[T]) Drop(key string) {
	s.cache.lock()
	defer s.cache.mu.Unlock()
	var none T
	s.set(key, none, false)
}

func (s store[T]) PrepareDrop(key string) {
	if s.release == nil {
		return
	}
	s.cache.lock()
	defer s.cache.mu.Unlock()
	s.release(key)
}

func (s store[T]) Keys(yield func(string) bool) {
	s.cache.mu.RLock()
	defer s.cache.mu.RUnlock()
	s.keys(yield)
}

// After a call to reportChanges, the cache reports all further changes. All policies must have been
// evaluated before the call.
func (c *cache) reportChanges() {
	c.lock()
	defer c.mu.Unlock()
	c.live = true
	for namespace := range c.policies.byNamespace { // policies changed since their evaluation
		c.policies.mark(namespace)
	}
	c.local.markCrowded()
}

func (c *cache) mark(id federation.ServiceID) {
	if c.live {
		c.dirty.Add(id.Namespace, id, c.now)
	}
	c.local.markInstances(id)
}

// removeFrom removes one element from a list, and may change the order of the other elements. If no
// elements remain, the result is nil, so that the memory is released.
func removeFrom[T comparable](list []T, x T) []T {
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
// or deleted.
func (c *cache) setUnusable(object, reason string) {
	if reason == "" {
		delete(c.unusable, object)
	} else {
		c.unusable[object] = reason
	}
}

// The second result of unusableObjects is the number of rejected ServiceProfiles.
func (c *cache) unusableObjects() (list []string, profiles int) {
	c.mu.RLock()
	reasons := maps.Clone(c.unusable) // sorted after unlocking, because there may be many
	if c.local != nil {
		profiles = c.local.profiles.rejected
	}
	c.mu.RUnlock()
	list = make([]string, 0, len(reasons))
	for _, object := range slices.Sorted(maps.Keys(reasons)) {
		list = append(list, object+": "+reasons[object])
	}
	return list, profiles
}
