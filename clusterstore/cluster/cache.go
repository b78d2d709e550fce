package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"isthmus/federation"
	"isthmus/internal/pace"
)

// cache holds the cached objects of one cluster. The handler of an event uses the indexes to find
// the services that the event affects. The cache does not perform I/O.
//
// Objects refer to each other through pointers. If an object that is referred to has not been read,
// the pointer refers to a placeholder. Objects may therefore arrive in any order. For example, an
// endpoint is left out of a slice while the endpoint's Pod is missing. When the Pod arrives,
// readers join the slice again.
//
// Each index is one type with all of its methods. The [follow.Store] of each kind looks up objects
// by key, to find the objects that a new list no longer contains. The following list describes each
// index and its users.
//
//   - The services index contains each Service and its slices, by name. Readers look up their
//     Service on every read. Pages and writers of slices also use the services index. An entry is
//     removed when it contains neither a Service nor slices.
//   - The slices index contains each EndpointSlice or Endpoints object, by key. Each slice has a
//     stamp, which changes whenever an object on which the slice depends changes. Readers compare
//     stamps to find the slices that they have to join again. Readers find the slices themselves
//     through the services index.
//   - The pods index contains Pods and ExternalWorkloads, by key, in 64 shards. Each slice in the
//     cache contains pointers to its Pods. Each Pod contains a list of its slices, and a change to
//     the Pod touches these slices. The attachPods and detachPods methods of sliceIndex keep both
//     sides consistent. The podIndex.sweep method removes unused placeholders.
//   - The owners index contains ReplicaSets and Jobs together with their Pods, by key. A change to
//     an owner touches its Pods. The attach and detach methods of ownerIndex keep both sides
//     consistent.
//   - The policies index contains the Servers that make ports opaque, both by key and by namespace
//     and name. For each namespace, the policies index contains sets of Pods, and the opaque ports
//     of each set. During a join, readers look up each Pod in the policies index. The setServer and
//     evaluate methods update the policies index after a change to a Server. The regroup method
//     updates the policies index after a change to a Pod.
//   - The nodes index contains the zone and region of each Node, by name, and the number of Nodes
//     in each region. In the local cluster, the nodes index also contains the addresses of Nodes.
//     The Cluster.Region method uses the nodes index.
//   - The gateways index contains the Services that are Linkerd gateways, by name. A link reads the
//     gateways index on every reconcile.
//   - The unusable index contains the reasons why objects cannot be used, by kind and key. Each new
//     version of an unusable object updates the reason. The Cluster.Health method returns the
//     reasons.
//   - The exports index contains the values that the hooks returned, if Config.Exports is set. The
//     hooks return values for Services and ServiceExports, and in the local cluster also for
//     Namespaces and ServiceImports. Cluster.Exports joins ServiceExports and Services with the
//     same name. A ServiceExport may arrive later than its Service, so the exports index contains
//     the values of all Services. Listing Services again for each new ServiceExport would use less
//     memory. However, any user with permission to create ServiceExports could then cause an
//     endless number of lists.
//   - The local field, which is only set in the local cluster, contains the addresses of Pods,
//     ExternalWorkloads, Services and Nodes. The local field also contains ServiceProfiles, and the
//     data from which EndpointSlices for ExternalWorkloads are created. Profiles and pages read
//     this data through the methods of [Local]. Each update marks the profiles that have to be read
//     again.
type cache struct {
	// fixed
	cluster             federation.ClusterName
	trustDomain         string
	controllerNamespace string
	dirty               *pace.Dirty[federation.ServiceID] // services to report, by namespace
	local               *Local                            // nil for a linked cluster

	// The mutex mu guards the following fields.
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

// lock locks the cache while one event is handled. The caller must unlock the mutex mu.
func (c *cache) lock() {
	now := time.Now()
	c.mu.Lock()
	c.now = now
}

// store is the [follow.Store] for one kind of object. Each method of store locks the cache. All
// functions in the fields of a store, except for the prepare function, are called with cache.mu
// held.
type store[T any] struct {
	cache *cache
	get   func(key string) (T, bool) // may be called with a read lock on cache.mu
	keys  func(yield func(key string) bool)
	same  func(a, b T) bool
	// The set function stores an object, which the get function then returns. If the exists
	// argument is false, the set function removes the object instead.
	set     func(key string, to T, exists bool)
	prepare func(key string, to T) T // if set, completes an object before the object is stored
	release func(key string)         // if set, releases the addresses of an object before its removal
}

// mapStore returns the store for a kind whose objects are stored in a map. After each change to the
// map, the store calls the changed function. The before argument is the zero value for a new
// object. The now argument is the zero value for a removed object.
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

// PutTogether calls f with a function that stores objects. All objects that the f function stores
// become visible to readers in one step.
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

// reportChanges makes the cache report all further changes. All policies must be evaluated before
// reportChanges is called.
func (c *cache) reportChanges() {
	c.lock()
	defer c.mu.Unlock()
	c.live = true
	for namespace := range c.policies.byNamespace { // policies that have changed in the meantime
		c.policies.mark(namespace)
	}
	c.local.markCrowded()
}

// mark records that the endpoints of a service may have changed.
func (c *cache) mark(id federation.ServiceID) {
	if c.live {
		c.dirty.Add(id.Namespace, id, c.now)
	}
	c.local.markInstances(id)
}

// without removes one element from a list, and does not preserve the order of the others. If the
// resulting list is empty, without returns nil to release the memory.
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

// setUnusable records the reason why an object cannot be used. The reason is empty if the object
// can be used or has been deleted.
func (c *cache) setUnusable(object, reason string) {
	if reason == "" {
		delete(c.unusable, object)
	} else {
		c.unusable[object] = reason
	}
}

// unusableObjects returns a sorted list of the unusable objects, together with the reasons. The
// unusableObjects method also returns the number of ServiceProfiles that cannot be used at all.
func (c *cache) unusableObjects() (list []string, profiles int) {
	c.mu.RLock()
	reasons := maps.Clone(c.unusable) // sorted without the lock, because there may be many
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
