// Package cluster reads the endpoints of one Kubernetes cluster. A [Cluster] lists and watches
// Services, EndpointSlices, Pods and the other objects that determine endpoints. A Cluster caches
// only the fields that it needs, and joins the cached objects when endpoints are read. Cluster
// implements [federation.Source].
//
// The package does not depend on links or on other clusters. The local cluster is treated like any
// linked cluster, except that [Local] also caches ServiceProfiles and the objects to which
// addresses are assigned.
//
//	c, err := cluster.New(cluster.Config{Name: "east", Client: client, Log: log, Changed: changed})
//	go c.Run(ctx)
//	<-c.Synced()
//	share := c.Reader(federation.ServiceID{Namespace: "shop", Name: "web"}, 80).Read()
//
// # Guarantees
//
//   - While the API server is unreachable, all cached endpoints stay in use. The Cluster resumes
//     its watches within 10 s after the API server recovers.
//   - The resulting endpoints depend only on the objects, not on the order of events. An
//     EndpointSlice may arrive before the Pods to which it refers.
//   - The content of an object cannot crash the process or prevent a message from being encoded. A
//     Cluster ignores endpoints that contain invalid UTF-8. A Cluster also ignores endpoints with
//     loopback, link-local, multicast or unspecified addresses, because API servers reject these
//     addresses in EndpointSlices.
//   - A large number of Servers, Pods or Pod labels in one namespace does not block updates to
//     endpoints in other namespaces. A dedicated goroutine evaluates the selectors of changed
//     Servers, one namespace at a time and without blocking other goroutines. The maxPolicy
//     constant limits the total cost of the Servers in each namespace. If Servers exceed the limit,
//     all replicas ignore the same Servers.
//   - If an object has not changed, a Reader or [Local.ServiceProfile] returns the same pointer as
//     before.
//   - ReplicaSets, Jobs, Nodes, Servers, ExternalWorkloads, ServiceProfiles, ServiceExports and
//     ServiceImports are optional. If the API server denies access to an optional kind or does not
//     serve the kind, [Cluster.Health] reports the problem, and the Cluster retries within 30 s.
//
// All methods except Run are safe for concurrent use. A Cluster reports no changes before its first
// sync.
//
// # From an event to endpoints
//
// The endpointSliceKind function defines how to list and watch EndpointSlices. The compactSlice
// function extracts the fields that are cached.
//
// The sliceIndex.set method associates the EndpointSlice with its Pods. If the EndpointSlice has
// changed, the method also assigns a new stamp and marks the Service as changed. [Cluster.Run]
// starts two goroutines, which call Config.Changed for each marked Service.
//
// The Config.Changed callback reads the endpoints from a reader. The reader processes only the
// EndpointSlices with new stamps. [Cluster.Explain] reports why each address of a Service is used
// or ignored. Explain runs the same code as the readers of endpoints, so the explanations are
// consistent with the endpoints.
//
// # Concurrency
//
// The cache.mu mutex guards the cached objects and their indexes. Joining an EndpointSlice with its
// Pods requires a read lock. No goroutine holds the mutex during I/O, during a call to Changed or
// LinkChanged, or while evaluating selectors.
//
// Each resource has one goroutine that updates the cache. Two goroutines call Config.Changed, and
// one goroutine evaluates policies. For the local cluster, a separate goroutine calls
// LocalConfig.ProfileChanged. Bursts of changes are merged before they are reported. Namespaces
// take turns, so that frequent changes in one namespace do not block reports about other
// namespaces.
//
// # Adding a kind
//
// To add a kind of object, create a file with the structure of node.go, and add the kind to
// newResources. The file for a kind defines how objects of that kind are cached, measured and
// indexed. Each kind has a compact function, which reduces an object to the value that is cached.
//
// [Cluster.Copy] returns the cached objects of a linked cluster as Kubernetes lists. If
// [Config].Copied is set, a Cluster reads copied lists instead of sending requests to an API
// server. Each kind in a copy has an expand function, which converts a cached value back into an
// object that contains only the cached data. To copy a new kind of object, add the kind to the
// makeCopy function.
//
// ARCHITECTURE.md in the root directory of the module describes how the packages work together.
package cluster
