// Package preflight inspects clusters for "isthmus check" when no replica runs. The function [See]
// returns the information that a replica would otherwise provide. To connect to the local cluster,
// See uses the user's credentials. To connect to linked clusters, See uses the credentials in the
// link Secrets.
//
//	program := cli.Program{Groups: []cli.Group{{Commands: commands.All(preflight.See)}}}
//
// The package is separate from package commands, because read-only commands other than "isthmus
// check" must not connect to linked clusters.
//
// Callers may rely on the following:
//
//   - The function See returns within allClusters, regardless of how API servers respond.
//   - The function See connects to at most clustersAtOnce clusters at a time.
//   - The function See does not change any objects.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package preflight
