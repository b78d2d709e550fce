// Package local serves what only the cluster that the gateway runs in can answer:
// which members a service has, in which zone a node is, and which profile a
// destination has.
//
//	l, err := local.New(local.Options{REST: cfg, TrustDomain: "cluster.local", Table: table, Log: log, …})
//	go l.Run(ctx)
//	<-l.Synced()
//	watch := l.Profile(federation.ProfileKey{Service: id, Port: 80})
//	defer watch.Close()
//	zone, changed := l.Zone("node-1")
//
// The local cluster is a cluster like any other: a [clusterstore.LocalLink] runs it as links
// run theirs, in the table under the name [federation.Local], with its region and cordon.
// A [Cluster] adds the definitions, which it reads from the Services'
// labels and annotations and keeps in the table (define.go, preference.go), the zones
// (zones.go), and the profiles (profile.go, profiles.go).
//
// Guarantees:
//
//   - Once Synced is closed, every Service is defined in the table and the local
//     cluster is linked as ready.
//   - A definition follows its Service live, whatever kind of service it was before.
//     However often that changes and however large it is, Services of other namespaces
//     do not wait for it.
//   - Every definition has a preference: what the Service's annotations ask for, and the
//     gateway's default for the rest. Services without such annotations share it.
//   - A profile depends on the objects as they are, not on their history, and
//     follows them live. Watches of equal keys share one profile, and a key without
//     watches takes no memory.
//   - If the API can't be reached, nothing is withdrawn: definitions, zones and
//     profiles stay as they were last read. Run ends with its context only.
//   - What can't be used of a Service's annotations or labels is skipped and
//     reported: by one log line when it appears, and by Problems while it is there.
//   - Node names that clients make up take no memory.
//
// All methods of a [Cluster] are safe for concurrent use; Run is called once. Its
// goroutines are Run's, those of its cluster, and a few that make definitions, each
// for another namespace. Profiles are made by the cluster's worker for profiles, which
// holds one watched profile's lock at a time.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package local
