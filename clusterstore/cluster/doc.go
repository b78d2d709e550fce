// Package cluster reads the endpoints of one cluster. A [Cluster] follows Services,
// EndpointSlices, Pods and all other objects that endpoints are made of, keeps the few
// fields that matter, and joins them when a reader asks: it is a [federation.Source].
// It knows nothing of other clusters and of links: the cluster that Isthmus runs in is read
// in the same way. That is a [Local], which also has profiles and the objects that addresses are assigned to.
//
//	c, err := cluster.New(cluster.Config{Name: "east", Client: client, Log: log, Changed: changed})
//	go c.Run(ctx)
//	<-c.Synced()
//	share := c.Reader(federation.ServiceID{Namespace: "shop", Name: "web"}, 80).Read()
//
// Each kind of object has one file with its cached form, what reads it from an object, its size and its index:
// slice.go (EndpointSlices and Endpoints), service.go, pod.go (podspec.go reads its containers and ports),
// externalworkload.go, owner.go (ReplicaSets and Jobs), node.go, policyserver.go (policy.go matches Servers),
// gateway.go, exports.go (Namespaces, ServiceExports and ServiceImports) and serviceprofile.go, which also
// translates ServiceProfiles. cluster.go lists the kinds that are followed, and state.go holds the indexes together.
// What only the local cluster has is in local.go, with addresses.go (which object an address is assigned to)
// and location.go (the addresses of one Pod).
//
// An EndpointSlice takes this way from the watch to endpoints: endpointSliceKind says how it is followed,
// compactSlice reads it, and sliceIndex.set connects it with its Pods, gives it a new stamp and marks its
// Service (slice.go). A goroutine of [Cluster.Run] reports marked Services to Config.Changed, whose callee
// calls Read of a reader. Read joins the slices whose stamps are new (join.go). explain.go describes what
// becomes of each address, from the same join.
//
// What callers may rely on:
//
//   - While the API can't be reached, all endpoints stay. It is watched again within
//     10 s of its return.
//   - Events may come in any order: a slice before its Pod, a Pod or Service that is
//     relabelled or comes late, an owner that is read last. The result depends on the
//     objects, not on the order of events.
//   - No content of an object ends the process, or makes a message that can't be sent.
//     An endpoint is left out if its address is one that no API server accepts in a
//     slice (loopback, link-local, multicast, unspecified), or a text of it is not
//     UTF-8.
//   - One namespace's Servers, Pods and their labels cost that namespace: what Servers
//     select is evaluated without any lock that others wait for, after a change of a Server
//     in the namespace's turn and by a goroutine that does nothing else (policy.go), and has a
//     limit (maxPolicy), beyond which Servers are ignored, the same ones in each replica.
//     Changes are reported in turn by namespace.
//   - Readers return the same pointers for what has not changed, and so does
//     [Local.ServiceProfile].
//   - ReplicaSets, Jobs, Nodes, Servers, ExternalWorkloads, ServiceProfiles, ServiceExports and
//     ServiceImports are optional. If they are forbidden or absent, that is in [Cluster.Health], and they
//     are retried within 30 s.
//
// The state has these indexes, each a type with all its methods, and all under state.mu. Each kind's
// [follow.Store] also asks for its objects by key, to find what a list no longer has.
//
//   - services: a Service and its slices, by name. Readers ask at each read, State for pages that
//     show members, Service for these, definitions and profiles; Selecting and ManagedSlices for what writes
//     slices for ExternalWorkloads. The stores of Services and slices put and remove; an entry with
//     neither is removed.
//   - slices: each EndpointSlice or Endpoints object, by key. Its store asks, and explain; readers come by
//     services. A slice has a stamp, new after each change behind it, by which readers see what
//     to join again.
//   - pods: Pods and ExternalWorkloads, by key, in 64 parts by namespace. A slice asks once, when it
//     is put, and then has a pointer, to a placeholder if need be; a policy asks for all of its
//     namespace. Each has its slices, for what its change touches; sliceIndex.attachPods and detachPods keep
//     the two sides alike, and podIndex.sweep removes placeholders that nothing names.
//   - owners: ReplicaSets and Jobs, by key, each with its Pods. A Pod asks when it is put, an
//     owner's change touches its Pods. ownerIndex.attach and detach keep both sides alike.
//   - policies: the Servers that make ports opaque, by key for their store, and by namespace and name, with
//     the sets of Pods that have the same labels and ports, and what is opaque of each set. The join asks for
//     each Pod. policyIndex.setServer and evaluate keep it right after a change of a Server, regroup after one
//     of a Pod.
//   - nodes: zone and region, by name, in the local cluster the addresses too, and how many Nodes have each region.
//     Region returns the one that all have.
//   - gateways: the Services that are Linkerd gateways, by name. Gateways asks at each reconcile of the link.
//   - exports, with Config.Exports only: what the hooks returned for Services that are listed, ServiceExports and,
//     in the local cluster, Namespaces and ServiceImports. Their stores keep it, and report at the end of each
//     list or event that it has changed. Exports joins ServiceExports with the values of the Services of their
//     names, whichever comes first, and so the value of every Service is cached. To list Services again for a
//     ServiceExport would take less memory, but whoever may write ServiceExports would have them listed without
//     end.
//   - unusable: why objects can't be used, by kind and key, for Health. Whoever puts such an object
//     sets it, with each version.
//   - local, in the local cluster only: addresses (addresses.go) has where each Pod and ExternalWorkload is,
//     which of them have an address, which Services have a cluster IP or an external address, and which Nodes
//     have an address; profiles has ServiceProfiles by key (serviceprofile.go). LookupAddress, Instance,
//     AddressOwner, AssignedTo and ServiceProfile read them. setLocation, setServiceAddresses, nodeIndex.set and
//     profileIndex.set update them. All but nodeIndex.set mark what profiles and the table have to read again.
//     Besides, by namespace, what slices have of ExternalWorkloads, for Workloads, and the Services with a
//     selector, for SelectingIn; and how many slices of each Service LocalConfig.SliceManager manages.
//   - local.conflicts (addresses.go), which has a mutex of its own: the addresses that several objects
//     claim (location.go), and since when. The goroutine that calls LocalConfig.ProfileChanged updates the
//     conflicts at an IP after each change of the objects that have the IP, and AddressConflicts
//     returns the conflicts.
//
// All methods but Run are safe for concurrent use. One mutex guards the objects
// (state.mu): it is held for map access and, shared, while a slice is joined; never
// during IO, nor while a function of Config runs, nor while selectors are evaluated. Each
// resource has a goroutine that writes; two more call Config.Changed, one evaluates policy, and of
// the local cluster one calls LocalConfig.ProfileChanged, so that none
// waits for another and bursts collapse. They work in turn by namespace, so that none holds up the
// others. Changes are reported after the first sync only: before it nothing can have been read.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package cluster
