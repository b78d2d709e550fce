// Package preflight inspects clusters if no replica runs. [See] returns what a replica would show,
// for "isthmus check" to judge. For the local cluster, See uses a user's credentials. For linked
// clusters, See uses the credentials of the link Secrets.
//
//	program := cli.Program{Groups: []cli.Group{{Commands: commands.All(preflight.See)}}}
//
// The package is separate from the commands because it connects to clusters like a replica. No
// other read-only command may do so.
//
// Callers may rely on the following:
//
//   - See returns within allClusters, whatever API servers respond.
//   - See contacts at most clustersAtOnce clusters at a time.
//   - See changes nothing.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package preflight
