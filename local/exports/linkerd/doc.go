// Package linkerd finds the links that Linkerd's service mirrors serve, so that Isthmus leaves
// their Services alone. It also reads which Services of linked clusters are exported. Its sources
// are the Leases and Links in the namespace of Linkerd's multicluster extension.
//
//	m := linkerd.New(linkerd.Options{
//		Sources:          client.Sources,
//		Leases:           client.Leases,
//		Printable:        client.Printable,
//		Namespace:        "linkerd-multicluster",
//		UnlinkedAfter:    10 * time.Minute,
//		SelectorsChanged: store.SelectorsChanged,
//		Changed:          lookAgain,
//	})
//	go m.Run(ctx)
//	m.Complete(&cluster) // a plan.Cluster
//
// What callers may rely on about Leases:
//
//   - Isthmus leaves a link to Linkerd while a mirror renews the Lease service-mirror-write-NAME
//     within its duration. NAME is the link's name, or the name of a Link whose targetClusterName
//     is the link's name.
//   - Isthmus leaves the local cluster to Linkerd while a mirror renews local-service-mirror-write.
//   - Objects that Linkerd wrote may be adopted once this process has read the Leases for
//     UnlinkedAfter without seeing the Lease held. A gap of 30 s between reads restarts this
//     period.
//   - All times are measured by this process, so clocks may differ. A Lease counts as held for its
//     duration from the moment when this process first saw a renewal. After a restart, the Lease of
//     a mirror that has died therefore counts as held once more.
//   - While Leases or Links cannot be read, Isthmus leaves alone what Linkerd wrote.
//
// What callers may rely on about Links:
//
//   - Until Links have been listed, nothing of a linked cluster is added or removed.
//   - If a linked cluster has no Link, Linkerd's default selectors apply. They also apply if
//     Isthmus has no permission to read Links, or if the kind does not exist. If a cluster has
//     several Links, the oldest one decides.
//   - An empty selector selects nothing.
//   - If a Link is invalid, its last valid version stays in force. Without such a version, nothing
//     of its cluster is added or removed.
//   - The selectors of a deleted Link stay in force for UnlinkedAfter.
//   - After selectors change, nothing of linked clusters is added or removed for 1 s, while they
//     are being applied.
//
// Load on the API server: listing Leases takes one request every 5 s. Links are watched. Without
// permission, Links take three requests every 25 s. If the kind does not exist, they take one
// request to API discovery every 5 s.
//
// Leases are not watched. Each mirror renews its Lease every 2 s, and each replica would receive
// all these events. A watch that stalls would also look like mirrors that have stopped.
//
// Call Run once. It starts one goroutine besides those of package follow. All other methods are
// safe for concurrent use and do not block.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package linkerd
