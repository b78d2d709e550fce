// Package local answers questions that concern only the local cluster: which members a service has,
// in which zone a node is, and which profile a destination has.
//
//	l, err := local.New(local.Options{REST: cfg, TrustDomain: "cluster.local", Table: table, Log: log, …})
//	go l.Run(ctx)
//	<-l.Synced()
//	watch := l.Profile(federation.ProfileKey{Service: id, Port: 80})
//	defer watch.Close()
//	zone, changed := l.Zone("node-1")
//
// A [clusterstore.LocalLink] runs the local cluster like a linked cluster. The table has it under
// the name [federation.Local], with its region and cordon. A [Cluster] adds the definitions of
// services, the zones of nodes, and the profiles. It reads the definitions from the labels and
// annotations of Services, and stores them in the table.
//
// What callers may rely on:
//
//   - Once Synced is closed, every Service is defined in the table, and the local cluster is linked
//     as ready.
//   - A definition always matches the present Service, even if the Service changes its kind. A
//     large or frequently changing definition does not delay Services of other namespaces.
//   - Every definition has a preference. The Service's annotations override the default of Isthmus.
//     Services without such annotations share the default.
//   - A profile depends on the present objects only, not on their history, and is updated when they
//     change. Watches of equal keys share one profile. A key without watches takes no memory.
//   - If the API can't be reached, nothing is withdrawn: definitions, zones and profiles stay as
//     they were. Run only returns when its context ends.
//   - Invalid parts of a Service's annotations or labels are skipped and reported, by one log line
//     when they appear, and by Problems while they exist.
//   - Node names that clients invent take no memory.
//
// All methods of a [Cluster] are safe for concurrent use, but Run must be called only once. Run
// starts the goroutines of the cluster and a few that define Services, each for a different
// namespace. The cluster's worker for profiles updates the profiles. It locks one watched profile
// at a time.
//
// ARCHITECTURE.md in the module's root shows how the packages work together.
package local
