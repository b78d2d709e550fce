// Package federation merges the endpoints that several clusters offer for a service, and publishes
// the endpoints that each kind of client gets.
//
// A [Table] joins definitions, which list the members of a service, with clusters, each of which is
// a [Source]. For every watched [Key] the table publishes a [Set]. A Set is immutable and sorted by
// address, with one endpoint per address. [Diff] compares two sets.
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
// The package imports only the standard library. It does not know Kubernetes or gRPC.
//
// # Guarantees
//
// Consistency:
//
//   - The published sets depend only on the newest definitions, the newest links, and the results
//     of the sources when the table reads them. The order of calls has no effect. Repeating a call
//     changes nothing.
//   - With a [Preference], and while a cordon takes effect, the sets also depend on the times of
//     changes. Tables with the same inputs and watches at the same times publish the same sets.
//   - Published values are never modified, and may be shared. An endpoint that has not changed
//     keeps its pointer in the next set.
//   - A set without endpoints has a [Reason]. A server can therefore distinguish an empty service
//     from an unknown one, and from one that can never work.
//   - [Set.Tiers] returns the tier and the standing of each endpoint. They may change while the set
//     does not.
//   - [Table.Explain] returns the reason for each address that a set omits. The reasons come from
//     the code that chooses the endpoints, so the addresses with the verdict [Served] are exactly
//     the set.
//
// Addresses:
//
//   - No set contains an endpoint of a linked cluster outside the link's [Ranges].
//   - No set contains an endpoint of a linked cluster at an address for which the local cluster's
//     [AddressOwners] returns an owner.
//   - If the ranges or the owners change, the sets change in one step.
//
// Cost:
//
//   - [Table.Changed] carries no data. The table reads the source again, but only for watched
//     services.
//   - At most [MaxUndeclaredPorts] ports of a service are watched that no member is known to
//     declare, unless members stop declaring watched ports. Any further port gets a set with the
//     reason [TooManyPorts], and the table reads nothing for that port.
//   - The cost of changing one endpoint does not depend on the number of watched instances that do
//     not exist.
//   - If node hints choose the endpoints of clients, their Key includes their node. Changes of
//     endpoints hinted to other nodes do not affect these clients. Clients on all other nodes of a
//     zone share one set.
//
// Preferences and cordons:
//
//   - With a Preference, clients get the endpoints of the shortest row of tiers that suffices. If
//     no row suffices, they get all tiers. Tiers that become needed are added in the same step as
//     the change that caused the need.
//   - Clients keep further tiers until the shorter row has sufficed for ReturnAfter. Then the
//     endpoints of these tiers leave in parts over ReturnOver. A view that is watched for the first
//     time begins with only the needed tiers.
//   - No set contains an endpoint that no tier names, or an endpoint of a withdrawn cluster.
//     Clusters of last resort form one more tier, which is used while nothing else is ready.
//   - A cluster that is withdrawn, or whose endpoints no tier can name, takes no address from other
//     clusters. The term zone can name endpoints of any cluster. A cluster of last resort takes no
//     address from clusters in service.
//   - A gradual cordon changes a tenth of the cluster's endpoints at a time. The tenths are the
//     same for all services and tables.
//   - The table stores no history for a service without tiers whose clusters are all in service.
//     Clients of the service get all endpoints, and the service is never due.
//
// Time and concurrency:
//
//   - The table has no timers. [Table.Due] returns the time of the next change without an event.
//     [Table.Tick] publishes all changes that are due by now. It publishes nothing if it is called
//     too early. All other methods work without calls of Tick.
//   - All methods are safe for concurrent use. The table starts no goroutines. When a method
//     returns, its effects have been published.
//   - A Source must not call the table while it is read.
//
// # How a change is published
//
// A call of [Table.SetLink], [Table.Define] or [Table.Changed] changes the sets in these steps:
//
//   - The Table stores the link or definition, and finds the affected watchedServices.
//   - Under its lock, each watchedService rebuilds its ports or reads one member again. At the end
//     it reports changed tiers and reschedules itself.
//   - Each port reads its members, screens and merges their offers, and finds the kinds of clients
//     that the change affects.
//   - For each of these kinds of clients, port.publish works as follows. pass.tally computes the
//     available endpoints. port.decideTiers decides how much of each tier is in use. pass.get
//     chooses the endpoints. If the new [Set] differs from the last one, it replaces the last one.
//
// Explain, Impact and the functions in inspect.go only describe the state, for metrics and the
// debug API. They never change a set.
//
// ARCHITECTURE.md, at the root of the module, describes how the packages work together.
package federation
