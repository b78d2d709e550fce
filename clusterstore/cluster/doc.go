// Package cluster reads the endpoints of one Kubernetes cluster. A [Cluster] lists and watches
// Services, EndpointSlices, Pods and the other objects that determine endpoints. A Cluster only
// caches the fields of these objects that it needs. When a reader requests endpoints, the Cluster
// joins the cached objects. A Cluster is a [federation.Source].
//
// The package knows nothing about links or other clusters, so it treats the local cluster like any
// linked cluster. The type [Local] represents the local cluster. A Local also caches
// ServiceProfiles, and the objects to which addresses are assigned.
//
//	c, err := cluster.New(cluster.Config{Name: "east", Client: client, Log: log, Changed: changed})
//	go c.Run(ctx)
//	<-c.Synced()
//	share := c.Reader(federation.ServiceID{Namespace: "shop", Name: "web"}, 80).Read()
//
// # Guarantees
//
//   - While the API server is unreachable, all cached endpoints stay in use. Within 10 s after the
//     API server recovers, the Cluster watches it again.
//   - A Cluster accepts events in any order. For example, an EndpointSlice may arrive before its
//     Pod, and an owner may be listed last. The order of events does not affect the resulting
//     endpoints, which only depend on the objects.
//   - The content of an object cannot crash the process, and cannot lead to a message that cannot
//     be encoded. A Cluster ignores an endpoint if one of its strings is not valid UTF-8. A Cluster
//     also ignores an endpoint with a loopback, link-local, multicast or unspecified address,
//     because API servers do not accept these addresses in EndpointSlices.
//   - The Servers, Pods and Pod labels in one namespace do not slow down other namespaces. After a
//     Server has changed, a dedicated goroutine evaluates the selectors of Servers, one namespace
//     at a time. No other goroutine waits for a lock during the evaluation. The constant maxPolicy
//     limits the Servers in each namespace. A Cluster ignores the Servers beyond the limit, and
//     every replica ignores the same Servers.
//   - A Cluster reports changes for one namespace after the other.
//   - Readers and [Local.ServiceProfile] return the same pointer for an object as long as the
//     object does not change.
//   - ReplicaSets, Jobs, Nodes, Servers, ExternalWorkloads, ServiceProfiles, ServiceExports and
//     ServiceImports are optional. If the API server forbids access to a kind or does not serve the
//     kind, [Cluster.Health] reports the problem, and the Cluster retries within 30 s.
//   - All methods except Run are safe for concurrent use.
//   - A Cluster only reports changes after its first sync, because readers wait for the first sync.
//
// # From an event to endpoints
//
// An EndpointSlice passes through these steps:
//
//   - The endpointSliceKind function defines how EndpointSlices are listed and watched. The
//     compactSlice function extracts the fields to cache.
//   - The sliceIndex.set method connects the EndpointSlice to its Pods, assigns a new stamp, and
//     marks the Service as changed.
//   - A goroutine of [Cluster.Run] calls Config.Changed for each marked Service. Config.Changed
//     then calls the Read method of a reader.
//   - The Read method only joins the EndpointSlices with new stamps.
//   - [Cluster.Explain] uses the same join to describe the verdict on each address.
//
// # Concurrency
//
// The mutex cache.mu guards the cached objects and their indexes. Goroutines hold the mutex while
// they access maps, and hold a read lock while they join an EndpointSlice. No goroutine holds the
// mutex during I/O, during a call to a function in Config, or while it evaluates selectors.
//
// For each resource, one goroutine updates the cache. Two more goroutines call Config.Changed, and
// one goroutine evaluates policies. For the local cluster, one goroutine calls
// LocalConfig.ProfileChanged. These goroutines do not wait for each other, and merge bursts of
// changes. Each goroutine handles one namespace after the other, so no namespace delays the others
// for long.
//
// To add a kind of object, create a new file with the structure of node.go, and add the kind to
// newResources. The file of a kind defines the cached form of an object, the function that extracts
// the cached form, its size and its index.
//
// # Copies
//
// [Cluster.Copy] returns the cached objects of a linked cluster as Kubernetes lists, and
// [Config].Copied makes a Cluster read such lists instead of those of an API server. Each kind of a
// linked cluster therefore has a function expand beside its function compact. It returns the smallest
// object that compacts to the same cached form. A new kind must also be added to Copy.
//
// The file ARCHITECTURE.md in the module's root directory describes how the packages work together.
package cluster
