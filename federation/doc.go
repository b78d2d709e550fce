// Package federation merges the endpoints that several clusters offer for a service, and publishes
// the endpoints for each kind of client.
//
// A [Definition] lists the members of a service. A [Source] provides the current state of one
// cluster. For every watched [Key], a [Table] computes a [Set] of endpoints from the definitions
// and sources, and publishes the Set. A Set is immutable, is sorted by address, and contains one
// endpoint per address. [Diff] returns the differences between two sets.
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
// The package imports only the standard library, not Kubernetes or gRPC.
//
// # Guarantees
//
// Consistency:
//
//   - The published sets depend only on the newest definitions, the newest links, and the state of
//     the sources when the table reads them. Neither the order of calls nor their repetition
//     affects the sets.
//   - With a [Preference], or during a gradual cordon, the sets also depend on the times at which
//     changes occur. Two tables publish the same sets if they receive the same inputs and watches
//     at the same times.
//   - Published values are never modified, so callers may share them. If an endpoint has not
//     changed, the next set contains the same *Endpoint pointer.
//   - A set without endpoints contains a [Reason]. The reason distinguishes an empty service from
//     an unknown service and from a service that can never work.
//   - [Set.Tiers] returns the tier of each endpoint, and the [Standing] of the endpoint's cluster
//     (in service, last resort or withdrawn). Tiers and standings may change without a change to
//     the set.
//   - For each address that a set omits, [Table.Explain] gives the reason. The addresses with the
//     verdict [Served] are exactly the addresses in the set, because Explain runs the same code
//     that chooses the endpoints.
//
// Addresses:
//
//   - If the address of a linked cluster's endpoint is outside the [Ranges] of the cluster's link,
//     no set contains the endpoint.
//   - If the address of a linked cluster's endpoint is assigned to an object in the local cluster,
//     no set contains the endpoint (see [AddressOwners]).
//   - When ranges or owners change, each affected set changes in one step.
//
// Cost:
//
//   - [Table.Changed] tells the table only which service has changed. If the service is watched,
//     the table reads the new state from the source.
//   - A port is undeclared if no member is known to declare it. Clients can watch at most
//     [MaxUndeclaredPorts] undeclared ports of a service. If members stop declaring watched ports,
//     the number of watched undeclared ports may exceed this limit. Clients of further undeclared
//     ports receive a set with the reason [TooManyPorts].
//   - The cost of a change does not depend on watches for instances that do not exist.
//   - If node hints determine a client's endpoints, the client's Key includes its node. Changes to
//     endpoints with hints for other nodes do not affect the client. Clients on nodes without
//     hinted endpoints share one set per zone.
//
// Preferences and cordons:
//
//   - If a service has a Preference, clients receive only endpoints in the most preferred tiers.
//     The table adds tiers in order of preference until the tiers in use contain enough ready
//     endpoints. If a change makes more tiers necessary, the table adds all endpoints of these
//     tiers in the same step.
//   - Tiers that are no longer necessary stay in use for ReturnAfter, and are then removed
//     gradually over ReturnOver. If a Key was not watched before, its clients initially receive
//     only the tiers that they need.
//   - Sets never contain endpoints that are outside all tiers or in withdrawn clusters. Clusters of
//     last resort form an additional tier, which is used only while no other endpoint is ready.
//   - If two clusters offer the same address, a cluster in service wins over a cluster of last
//     resort. Withdrawn clusters, and clusters outside all tiers, do not compete for addresses.
//   - A gradual cordon removes a tenth of the cluster's endpoints at a time. All replicas divide
//     the endpoints of a cluster into the same ten groups.
//   - If a service has no tiers, and the standing of all its clusters is [InService], the table
//     neither stores history nor schedules changes for the service.
//
// Time and concurrency:
//
//   - The table does not use timers. [Table.Due] returns the time of the next scheduled change, and
//     [Table.Tick] publishes all changes that are due.
//   - All methods are safe for concurrent use, and publish all their effects before they return.
//     The table does not start goroutines.
//   - A Source must not call the table while the table reads the Source.
//
// # How a change is published
//
// A call to [Table.SetLink], [Table.Define] or [Table.Changed] changes the sets in these steps:
//
//   - The table stores the link or definition, and finds the affected watched services.
//   - The table updates each of these services while holding the service's lock. The update either
//     rebuilds all ports of the service or rereads a single member. Finally, the table reschedules
//     the service and reports changed tiers.
//   - Each port reads its members, removes the addresses that the members must not offer, merges
//     the offers, and finds the affected kinds of clients.
//   - For each kind of client, pass.tally finds the available endpoints, port.decideTiers
//     determines which tiers are in use, and pass.get chooses the endpoints. The new [Set] is
//     published if it differs from the previous one.
//
// The methods Explain, Impact, Linked, Unserved, Watched and Steered do not change the table.
// Metrics and the debug API use these methods to describe the table.
package federation
