// Package preflight finds out what a replica would show of clusters, where none runs: "isthmus check" judges it, with a
// user's credentials for the local cluster and those of the link Secrets for the others.
//
//	program := cli.Program{Groups: []cli.Group{{Commands: commands.All(preflight.See)}}}
//
// It is apart from the commands since it connects to clusters as a replica does, which no other command that looks may.
//
// Guarantees: See takes allClusters at most, whatever API servers answer, and asks clustersAtOnce of them at a time. It
// changes nothing.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package preflight
