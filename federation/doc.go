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
//     what the sources return when they are read.
//   - Changed carries no data: the table reads the source again. It reads nothing
//     for a service that is not watched.
//   - Published values are never written again and may be shared freely.
//     Endpoints that did not change keep their pointer from set to set.
//   - No set has a linked cluster's endpoint that is outside the link's [Ranges], or at
//     an address that the local cluster's [Owner] names an object for. When either
//     changes, the sets do, in one step.
//   - Keys of AnyPort share the set of all ports that no member declares. A change of one
//     endpoint does not depend on how many instances are watched that do not exist.
//   - A set without endpoints has a [Reason], so that a server can distinguish
//     "empty" from "unknown" and from "can never work" without further queries.
//
// Concurrency: all methods may be called at any time by any goroutine. The table
// starts no goroutines: when a method returns, its effects have been published.
// A Source must not call the table while it is being read.
//
// The package imports the standard library only: it knows neither Kubernetes nor
// gRPC. ARCHITECTURE.md, at the module's root, describes how the packages work
// together.
package federation
