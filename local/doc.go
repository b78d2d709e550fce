// Package local knows what only the cluster that the gateway runs in knows:
// what its services are made of, in which zone its nodes are, and what is told of
// a destination: its profile.
//
// The local cluster is a cluster like any other: a [cluster.Cluster], linked
// in the table under the name [federation.Local]. What a [Local] adds is the
// definitions, which it makes of the Services' labels and annotations and keeps
// in the table, the zones, and the profiles.
//
// What callers may rely on:
//
//   - Once Synced is closed, every Service is defined in the table and the local
//     cluster is linked as ready.
//   - A definition follows its Service live, from any kind to any other.
//   - A profile is a function of the objects as they are, not of their history,
//     and follows them live. Equal keys share it, and of keys that nobody watches
//     nothing is left.
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
//   - A profile is made anew, from what is known then, when its service, its
//     service's hostnames or its address are said to have changed: changes carry no
//     data, and none is missed, since a profile is known to changes before it is
//     made for the first time. Those of service ports are left alone when endpoints
//     come and go.
//   - The ServiceProfile of the client's namespace goes before that of the
//     Service's, even if it can't be used: that it is there says that the other
//     one is not meant.
//   - Opaque ports are the Service's annotation's, or the default; what a
//     ServiceProfile says of them does not count. Federated and mirrored Services
//     are Services like any other.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package local
