// Package linkerd finds the links for which a Linkerd service mirror is running, so that Isthmus
// does not write their Services. The package also reads the selectors of exported Services in
// linked clusters. The package reads Leases and Links in the namespace of Linkerd's multicluster
// extension.
//
//	m := linkerd.New(linkerd.Options{
//		Sources:          client.Sources,
//		Leases:           client.Leases,
//		Printable:        client.Printable,
//		Namespace:        "linkerd-multicluster",
//		UnlinkedAfter:    10 * time.Minute,
//		SelectorsChanged: store.SelectorsChanged,
//		Changed:          store.NotifyExports,
//	})
//	go m.Run(ctx)
//	m.Complete(&cluster) // a plan.Cluster
//
// Callers may rely on the following behavior of Leases:
//
//   - Isthmus leaves a link to Linkerd while a mirror renews the Lease service-mirror-write-NAME
//     within its duration. NAME is the link's name, or the name of a Link object whose
//     targetClusterName is the link's name.
//   - Isthmus leaves the local cluster to Linkerd while a mirror renews local-service-mirror-write.
//   - Isthmus may adopt objects that Linkerd wrote once this process has read the Leases for
//     UnlinkedAfter without seeing the Lease held. A gap of 30 s between reads restarts this
//     period.
//   - This process measures all times with its own clock, so clocks may differ. A Lease counts as
//     held for its duration, starting when this process first sees a renewal. After a restart, the
//     Lease of a mirror that no longer runs therefore counts as held once more.
//   - While Leases or Links cannot be read, Isthmus does not change objects that Linkerd wrote.
//
// Callers may rely on the following behavior of Links:
//
//   - Until Links have been listed, Isthmus neither adds nor removes objects for linked clusters.
//   - If a linked cluster has no Link, Linkerd's default selectors apply. The default selectors
//     also apply if Isthmus lacks permission to read Links, or if the kind Link does not exist. If
//     a cluster has several Links, the oldest Link decides.
//   - An empty selector selects nothing.
//   - If a Link is invalid, its last valid version stays in force. If the Link was never valid,
//     Isthmus neither adds nor removes objects for the cluster.
//   - The selectors of a deleted Link stay in force for UnlinkedAfter.
//   - For 1 s after selectors change, Isthmus neither adds nor removes objects for linked clusters,
//     because the new selectors are still being applied.
//
// The load on the API server is low. Isthmus lists Leases every 5 s with one request. Links are
// watched. Without permission to read Links, Isthmus sends three requests every 25 s. If the kind
// Link does not exist, Isthmus sends one request to API discovery every 5 s.
//
// Leases are not watched. Each mirror renews its Lease every 2 s, so each replica would receive all
// these events. A stalled watch would also look as if the mirrors had stopped.
//
// Call Run once. Run starts one goroutine in addition to the goroutines of package follow. All
// other methods are safe for concurrent use and do not block.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package linkerd
