// Package federation merges the endpoints that several clusters offer for a service, and publishes
// the endpoints for each kind of client.
//
// A [Table] combines definitions, which list the members of each service, with linked clusters,
// which implement [Source]. The table publishes a [Set] of endpoints for every watched [Key]. A Set
// is immutable and sorted by address, and contains one endpoint per address. [Diff] returns the
// differences between two sets.
//
//	t := federation.NewTable(federation.Options{})
//	t.Link("east", federation.Ready, east)     // east is a Source
//	t.Define(web, &federation.Definition{Federated: true,
//		Members: []federation.Member{{Service: web}, {Cluster: "east", Service: web}}})
//
//	w := t.Watch(federation.Key{Service: web, Port: 80})
//	defer w.Close()
//	for {
//		set, replaced := w.Get()
//		...
//		<-replaced
//	}
//
// The package imports only the standard library. The package does not depend on Kubernetes or gRPC.
//
// # Guarantees
//
// Consistency:
//
//   - The published sets depend only on the newest definitions, the newest links, and the state of
//     the sources when the table reads them. The order of calls does not affect the sets. Repeating
//     a call does not change anything.
//   - With a [Preference], and while a cordon takes effect, the sets also depend on the times of
//     changes. Two tables publish the same sets if they receive the same inputs and watches at the
//     same times.
//   - Published values are never modified, so callers may share them. An endpoint that has not
//     changed keeps its pointer in the next set.
//   - A set without endpoints contains a [Reason]. The reason lets a server distinguish an empty
//     service, an unknown service, and a service that can never work.
//   - [Set.Tiers] returns the tier of each endpoint and the standing of its cluster. Tiers and
//     standings may change even if the set does not.
//   - [Table.Explain] says why a set omits each address that is not served. The explanation uses
//     the code that chooses the endpoints, so the addresses with the verdict [Served] are exactly
//     the addresses in the set.
//
// Addresses:
//
//   - Sets never contain an endpoint of a linked cluster outside the [Ranges] of its link.
//   - Sets never contain an endpoint of a linked cluster whose address has an owner according to
//     the local cluster's [AddressOwners].
//   - If the ranges or the owners change, each affected set changes in one step.
//
// Cost:
//
//   - [Table.Changed] names the changed service, but does not carry its new state. The table then
//     reads the source again, but only for watched services.
//   - If no member is known to declare a port, the port counts as undeclared. At most
//     [MaxUndeclaredPorts] undeclared ports of a service are watched. The limit can be exceeded
//     only if members stop declaring ports that are watched. For every further undeclared port, the
//     table publishes a set with the reason [TooManyPorts] without reading sources.
//   - The cost of changing one endpoint does not depend on the number of watched instances that do
//     not exist.
//   - If node hints choose the endpoints of clients, the clients' Key includes their node. Changes
//     to endpoints with hints for other nodes do not affect these clients. Clients on nodes without
//     hinted endpoints share one set per zone.
//
// Preferences and cordons:
//
//   - With a Preference, clients receive the endpoints of as few leading tiers as suffice. If even
//     all tiers together do not suffice, clients receive all tiers. Tiers that become necessary are
//     added in the same step as the change that made them necessary.
//   - Tiers that are no longer necessary stay in use for ReturnAfter. After ReturnAfter, the
//     endpoints of these tiers are removed in parts over ReturnOver. A view that is watched for the
//     first time begins with only the necessary tiers.
//   - Sets never contain an endpoint that is not named by any tier, or an endpoint of a withdrawn
//     cluster. Clusters of last resort form an additional tier, which is used only while there is
//     no other ready endpoint.
//   - A withdrawn cluster, or a cluster whose endpoints no tier can name, does not compete with
//     other clusters for addresses. The term zone can name endpoints of any cluster. If a cluster
//     of last resort and a cluster in service offer the same address, the cluster in service wins.
//   - A gradual cordon affects a tenth of the cluster's endpoints at a time. All services and all
//     tables divide a cluster's endpoints into the same tenths.
//   - The table does not store any history for a service without tiers whose clusters are all in
//     service. Clients of a service without tiers receive all endpoints, and the table never
//     schedules changes for the service.
//
// Time and concurrency:
//
//   - The table does not use timers. [Table.Due] returns the time of the next change without an
//     event. [Table.Tick] publishes all changes that are due by now. Calling Tick too early does
//     not publish anything. All other methods work even if Tick is never called.
//   - All methods are safe for concurrent use. The table does not start goroutines. When a method
//     returns, all its effects have been published.
//   - A Source must not call the table while the table reads the Source.
//
// # How a change is published
//
// A call to [Table.SetLink], [Table.Define] or [Table.Changed] changes the sets in these steps:
//
//   - The Table stores the link or definition, and finds the affected watchedServices.
//   - Each watchedService locks itself, and either rebuilds its ports or reads one member again.
//     After the update, each watchedService reports changed tiers and reschedules itself.
//   - Each port reads its members, screens and merges their offers, and finds the kinds of clients
//     that the change affects.
//   - For each kind of client, port.publish calls pass.tally, which finds the available endpoints.
//     Next, port.decideTiers decides how much of each tier is in use. Finally, pass.get chooses the
//     endpoints. If the new [Set] differs from the published one, port.publish replaces it.
//
// Explain, Impact and the functions in inspect.go describe the state of the table for metrics and
// the debug API. The functions that describe the table never change a set.
//
// ARCHITECTURE.md, in the root directory of the module, describes how the packages work together.
package federation
