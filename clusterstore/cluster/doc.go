// Package cluster reads the endpoints of one cluster. A [Cluster] follows Services,
// EndpointSlices, Pods and all other objects that endpoints are made of, keeps the few
// fields that matter, and joins them when a reader asks: it is a [federation.Source].
// It knows nothing of other clusters and of links: the cluster that Isthmus runs in is read
// in the same way. That is a [Local], which also has profiles and the owners of addresses.
//
//	c, err := cluster.New(cluster.Config{Name: "east", Client: client, Log: log, Changed: changed})
//	go c.Run(ctx)
//	<-c.Synced()
//	share := c.Reader(federation.ServiceID{Namespace: "shop", Name: "web"}, 80).Read()
//
// Each kind of object has a file with its cache, its index, what reads it from an object and its size:
// slice.go (EndpointSlices and Endpoints), service.go, pod.go (and podspec.go, its containers and ports),
// externalworkload.go, owner.go (ReplicaSets and Jobs), node.go, policyserver.go (with policy.go, which
// matches Servers), gateway.go and serviceprofile.go, which also translates ServiceProfiles. state.go holds
// them together. join.go makes endpoints; explain.go has what becomes of each address of a Service,
// from the same join. What only the local cluster has is in local.go, with addresses.go (which object an
// address belongs to) and location.go (the addresses of one Pod).
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
// The state has these indexes, all under state.mu. Each kind's [follow.Store] also asks for its
// objects by key, to find what a list no longer has.
//
//   - services: a Service and its slices, by name. Readers ask at each read, State for pages that
//     show members, Service for these, definitions and profiles; Selecting and ManagedSlices for what writes
//     slices for ExternalWorkloads. The stores of Services and slices put and remove; an entry with
//     neither is removed.
//   - slices: each EndpointSlice or Endpoints object, by key. Its store asks, and what explains; readers come by
//     services. A slice has a stamp, new after each change behind it, by which readers see what
//     to join again.
//   - pods: Pods and ExternalWorkloads, by key, in 64 parts by namespace. A slice asks once, when it
//     is put, and then has a pointer, to a placeholder if need be; a policy asks for all of its
//     namespace. Each has its slices, for what its change touches; attachPods and detachPods keep
//     the two sides alike, and sweepPod removes placeholders that nothing names.
//   - replicaSets, jobs: owners of Pods, by key, each with its Pods. A Pod asks when it is put, an
//     owner's change touches its Pods. attachOwner and detachOwner keep both sides alike.
//   - servers: the Servers that make ports opaque, by key. Only their store asks.
//   - policies: the same by namespace and name, with the sets of Pods that have the same labels and ports, and what is
//     opaque of each set. The join asks for each Pod. setServer and evaluatePolicy keep it right after
//     a change of a Server, regroup after one of a Pod.
//   - nodes: zone and region, by name, in the local cluster the addresses too, and how many Nodes have each region.
//     Region returns the one that all have.
//   - gateways: the Services that are Linkerd gateways, by name. Gateways asks at each reconcile of the link;
//     setGateway keeps the index right.
//   - exports, with Config.Exports only: ServiceExports, by key, and of the local cluster Namespaces
//     and ServiceImports. Their stores keep it, and report at the end of each
//     list or event that it has changed; Exports makes what others see when it is asked, and then joins ServiceExports with
//     their Services. So that these are there whichever comes first, the little that ServiceExports need is kept of every Service:
//     half a KiB of each. To list Services again for a ServiceExport would take less memory, but whoever may write ServiceExports
//     would have them listed without end.
//   - unusable: why objects can't be used, by kind and key, for Health. Whoever puts such an object
//     sets it, with each version.
//   - local (local.go), in the local cluster only: where each Pod and ExternalWorkload is; which have an
//     address, Pods apart from ExternalWorkloads, since any number of the latter may have the same; which
//     Services have a cluster IP or an external address; which Nodes have an address; and ServiceProfiles
//     by key. LookupAddress, Instance, Owner, AssignedTo and ServiceProfile read it. setLocation,
//     setServiceAddresses, nodeChanged and setProfile update it. All but nodeChanged mark what profiles and
//     the table have to read again. Besides, by namespace, what slices have of ExternalWorkloads, for
//     Workloads, and the Services with a selector, for SelectingIn; setSelected and setSelecting keep them
//     and countMarked keeps how many slices of each Service have the mark.
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
