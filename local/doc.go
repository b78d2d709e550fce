// Package local provides data about the local cluster: the members of each service, the zone of
// each node, and the profile of each destination.
//
//	l, err := local.New(local.Options{REST: cfg, TrustDomain: "cluster.local", Table: table, Log: log, …})
//	go l.Run(ctx)
//	<-l.Synced()
//	watch := l.Profile(federation.ProfileKey{Service: id, Port: 80})
//	defer watch.Close()
//	zone, changed := l.Zone("node-1")
//
// A [clusterstore.LocalLink] lists and watches the objects of the local cluster in the same way as
// the objects of a linked cluster. The table lists the local cluster as [federation.Local], with
// its region and cordon. A [Cluster] provides the same kinds of data as a linked cluster, and also
// service definitions, node zones and profiles. The Cluster reads the definitions from the labels
// and annotations of Services, and stores them in the table.
//
// Callers may rely on the following:
//
//   - Once Synced is closed, the table contains a definition for every Service, and the local
//     cluster is ready.
//   - A definition always matches the current Service, even if a mirror becomes a federated
//     Service. A large or frequently changing definition does not delay Services in other
//     namespaces.
//   - Every definition has a preference. Annotations on a Service override the default preference
//     of Isthmus. Services without preference annotations share the default.
//   - A profile depends only on the current objects, not on their history, and is updated when the
//     objects change. Watches with the same key share one profile. A key without watches uses no
//     memory.
//   - If the API cannot be reached, definitions, zones and profiles stay unchanged. Run returns
//     only when its context is done.
//   - A Cluster ignores invalid parts of a Service's annotations or labels. Invalid parts are
//     logged once when they appear, and Problems returns them while they exist.
//   - A Cluster stores nothing for unknown nodes, so that clients cannot exhaust memory by
//     inventing node names.
//
// All methods of a [Cluster] are safe for concurrent use, but Run must be called only once. Run
// starts the goroutines that list and watch the local cluster, and a few more goroutines that
// compute the definitions of Services. No two goroutines ever compute definitions in the same
// namespace at the same time. A single goroutine updates all profiles, and locks one watched
// profile at a time.
//
// ARCHITECTURE.md, at the root of the module, explains how the packages work together.
package local
