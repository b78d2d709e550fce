// Package cluster reads the endpoints of one Kubernetes cluster. A [Cluster] lists and watches
// Services, EndpointSlices, Pods and the other objects that determine endpoints. A Cluster caches
// only the fields of these objects that it needs, and joins the objects when a reader asks. A
// Cluster is a [federation.Source].
//
// The package knows nothing about links or other clusters, so it reads the local cluster like any
// linked cluster. [Local] represents the local cluster. Local adds ServiceProfiles, and the objects
// that addresses are assigned to.
//
//	c, err := cluster.New(cluster.Config{Name: "east", Client: client, Log: log, Changed: changed})
//	go c.Run(ctx)
//	<-c.Synced()
//	share := c.Reader(federation.ServiceID{Namespace: "shop", Name: "web"}, 80).Read()
//
// # Guarantees
//
//   - While the API server is unreachable, all cached endpoints stay. The cluster is watched again
//     within 10 s after the API server returns.
//   - Events may arrive in any order. A slice may arrive before its Pod, a Pod or Service may be
//     relabelled or arrive late, and an owner may be listed last. The result depends only on the
//     objects.
//   - No content of an object crashes the process or produces a message that cannot be encoded. An
//     endpoint is left out if one of its texts is not valid UTF-8. An endpoint is also left out if
//     no API server would accept its address in a slice (loopback, link-local, multicast or
//     unspecified).
//   - The Servers, Pods and Pod labels of one namespace do not slow down other namespaces. Server
//     selectors are evaluated without holding a lock that others wait for. After a Server changes,
//     a dedicated goroutine evaluates the selectors, one namespace at a time. Each namespace has a
//     limit (maxPolicy). Servers beyond the limit are ignored, and every replica ignores the same
//     ones.
//   - Changes of different namespaces are reported in turn.
//   - Readers and [Local.ServiceProfile] return the same pointers for objects that have not
//     changed.
//   - ReplicaSets, Jobs, Nodes, Servers, ExternalWorkloads, ServiceProfiles, ServiceExports and
//     ServiceImports are optional. If a kind is forbidden or absent, [Cluster.Health] reports that,
//     and the kind is retried within 30 s.
//   - All methods except Run are safe for concurrent use.
//   - Changes are reported only after the first sync, because readers wait for that sync.
//
// # From an event to endpoints
//
// An EndpointSlice passes through these steps:
//
//   - endpointSliceKind defines how EndpointSlices are listed and watched, and compactSlice
//     extracts the cached fields.
//   - sliceIndex.set connects the slice with its Pods, gives the slice a new stamp, and marks its
//     Service.
//   - A goroutine of [Cluster.Run] reports marked Services to Config.Changed, and the callee calls
//     Read of a reader.
//   - Read joins only the slices whose stamps are new.
//   - [Cluster.Explain] describes the verdict on each address, from the same join.
//
// # Concurrency
//
// One mutex (state.mu) guards the objects and their indexes; the type state describes the indexes.
// The mutex is held for map access and, shared, while a slice is joined. The mutex is never held
// during I/O, while a function of Config runs, or while selectors are evaluated.
//
// Each resource has one goroutine that updates the state. Two more goroutines call Config.Changed,
// and one evaluates policies. For the local cluster, one goroutine calls
// LocalConfig.ProfileChanged. These goroutines do not wait for each other, and they merge bursts of
// changes. Each goroutine serves the namespaces in turn, so no namespace delays the others.
//
// To add a kind of object, write its file after the model of node.go. The file contains the cached
// form, the function that extracts it, its size and its index. Then list the kind in newResources.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package cluster
