// Package linkerd finds out where Linkerd's service mirrors work, whose Services the gateway leaves to them, and
// which Services of linked clusters are exported, by the Links in Linkerd's multicluster namespace.
//
//	m := linkerd.New(linkerd.Options{
//		Sources: client.Sources, Leases: client.Leases, Printable: client.Printable, Namespace: "linkerd-multicluster",
//		UnlinkedAfter: 10 * time.Minute, SelectorsChanged: store.SelectorsChanged, Changed: lookAgain,
//	})
//	go m.Run(ctx)
//	m.Complete(&cluster) // a plan.Cluster
//
// What callers may rely on:
//
//   - A link is left to Linkerd while the Lease service-mirror-write-LINK is renewed within its duration, LINK being
//     the name of a Link whose targetClusterName is the link's name, or that name itself. So is the own cluster while
//     local-service-mirror-write is.
//   - What Linkerd wrote may be adopted once this process has read the Leases for UnlinkedAfter, without a gap of 30
//     s and without seeing that one held.
//   - Times are those of this process: a Lease is held for its duration from when a renewal was first seen. So clocks
//     that differ do not matter, and the Lease of a mirror that has died is held once more when the gateway starts.
//   - While Leases or Links can't be read what Linkerd wrote is left alone. Before it is known which Links there are
//     nothing of a linked cluster is added or removed.
//   - A linked cluster without a Link, and each while Links may not be read or the kind does not exist, has the
//     selectors that Linkerd's have by default. Of several Links the oldest decides.
//   - An empty selector selects nothing. Of a Link that can't be read what was read before stays in force; if nothing
//     was, nothing of its cluster is added or removed. That of a Link that goes stays in force for UnlinkedAfter.
//   - After selectors have changed, nothing of linked clusters is added or removed for 1 s: they have to be applied
//     first.
//   - Leases take a request in 5 s. Links are watched; where they may not be read or the kind does not exist, they
//     take three requests in 25 s, or one to API discovery in 5 s.
//
// Leases are not watched: each mirror renews its own every 2 s, which would be as many events for each replica of the
// gateway, and a watch that falls silent looks like mirrors that have ended.
//
// Run is called once. It has a goroutine besides those of package follow. All else is safe for concurrent use, and
// does not block.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package linkerd
