// Package local knows what only the cluster that the gateway runs in knows:
// what its services are made of, and in which zone its nodes are.
//
// The local cluster is a cluster like any other: a [clusterstore.Cluster], linked
// in the table under the name [federation.Local]. What a [Local] adds is the
// definitions, which it makes of the Services' labels and annotations and keeps
// in the table, and the zones.
//
// What callers may rely on:
//
//   - Once Synced is closed, every Service is defined in the table and the local
//     cluster is linked as ready.
//   - A definition follows its Service live, from any kind to any other.
//   - Whatever happens to the API, nothing is withdrawn: what was known stays
//     until the API says otherwise. Run ends with its context only.
//
// Decisions:
//
//   - A Service is federated if it has either annotation, even an empty one;
//     that wins over the labels of a mirror.
//   - A mirror that names its cluster but no Service has no members, and is
//     refused when it is asked for.
//   - A remote-discovery label with an empty value names no cluster, as if it
//     were not there: the Service stands for itself. It is reported.
//   - What can't be used of an annotation is passed over and reported: by one
//     log line when it comes up, and by Problems for as long as it is there. An
//     annotation that is empty as a whole is what the service mirror leaves
//     behind, and no problem.
//   - A zone that is asked for an unknown node costs nothing: all who wait for
//     unknown nodes wait for the same channel, which is closed when any node
//     appears. So names that clients make up leave nothing behind.
package local
