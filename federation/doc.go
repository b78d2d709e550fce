// Package federation merges what several clusters offer of a service, and
// publishes what each kind of client sees of it.
//
// A [Table] joins definitions (which members make up a service) with clusters
// (each a [Source]). For every watched [Key] it publishes a [Set]: immutable,
// sorted by address, one endpoint per address. [Diff] compares two sets.
//
//	t := federation.NewTable(federation.Options{})
//	t.Link("east", federation.Ready, east)     // a Source
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
// Guarantees:
//
//   - The order of calls does not matter, and repeating one changes nothing: the
//     published sets depend only on the newest definitions, the newest links and
//     what the sources return when they are read. With a [Preference], and while a
//     cordon takes effect, they depend also on when these have changed. Tables that are
//     given and asked the same at the same times publish the same.
//   - Changed carries no data: the table reads the source again. It reads nothing
//     for a service that is not watched.
//   - Published values are never written again and may be shared freely.
//     Endpoints that did not change keep their pointer from set to set.
//   - No set has a linked cluster's endpoint that is outside the link's [Ranges], or at
//     an address that the local cluster's [AddressOwners] names an object for. When either
//     changes, the sets do, in one step.
//   - At most [MaxUndeclaredPorts] ports of a service are watched that no member is known to
//     declare, unless ports cease to be declared while they are watched. A Key of one more
//     has a set with the reason [TooManyPorts], for which nothing is read.
//   - The time that a change of one endpoint takes does not depend on how many instances
//     are watched that do not exist.
//   - Clients for which node hints choose endpoints have a Key with their node. A change of endpoints that are
//     hinted to other nodes does not concern them. Clients on all other nodes share the sets of their zone.
//   - Clients of a service with a Preference have the endpoints of the shortest row of
//     tiers that suffices, or else of all tiers, in the same step as the change that makes
//     them needed. Those of further tiers leave once that row has sufficed for ReturnAfter,
//     in parts over ReturnOver. The first watch of a view begins with what is needed.
//   - No set has an endpoint that no tier names, or of a cluster that is withdrawn. Those
//     of last resort are used, as one more tier, while nothing else is ready. A cluster
//     that is withdrawn, or that no tier concerns, takes no address from another; one of
//     last resort takes none from those in service.
//   - A cordon that is spread changes a tenth of the cluster's endpoints at a time, the
//     same in all services and tables.
//   - The table has no timers. [Table.Due] has when something changes next by the passing
//     of time, and [Table.Tick] publishes that: if it is late, all that is due by then; if it
//     is early, nothing. All other methods publish without it.
//   - A service without tiers, none of whose clusters is taken out, remembers nothing and
//     is never due. Its clients get everything.
//   - [Set.Tiers] has the tier and the standing of each endpoint of a set. They may change
//     while the set does not.
//   - [Table.Explain] has the reason for each address that a set leaves out, from the code
//     that has left it out: what it counts as [Served] is the set.
//   - A set without endpoints has a [Reason], so that a server can distinguish
//     "empty" from "unknown" and from "can never work" without further queries.
//
// Concurrency: all methods may be called at any time by any goroutine. The table
// starts no goroutines: when a method returns, its effects have been published.
// A Source must not call the table while it is being read.
//
// # One change
//
// These steps follow a change from [Table.SetLink], [Table.Define] or [Table.Changed] to the sets, and each
// file has its functions in this order:
//
//   - table.go stores the link or definition, and finds the watched services that it concerns.
//   - service.go has what one watched service does under its lock: rebuild, readMember, and the end of each
//     change (when the service is due next, which changes of tiers are reported).
//   - port.go reads the members (contribution.go), screens and merges their offers (merge.go), and finds the
//     kinds of clients that the change concerns (audience.go).
//   - port.publish takes each kind of client through three steps: what it could get (pass.tally), how much of
//     each tier it uses (tiers.go and tierview.go; everything, if the port is not steered), and which endpoints
//     it gets (pass.get in choose.go). If the [Set] differs, it replaces the one before.
//
// What only describes is apart, methods of Table, watchedService and port among it: explain.go has the reasons
// for each address, impact.go what a cordon would change, and inspect.go the rest, for metrics and the debug API.
//
// The package imports the standard library only: it knows neither Kubernetes nor gRPC.
// ARCHITECTURE.md, at the module's root, describes how the packages work together.
package federation
