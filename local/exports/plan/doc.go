// Package plan computes which Services and ServiceImports Isthmus writes for the exports of the
// local cluster and of all linked clusters. A plan also contains a verdict on each export. The
// package does not access the API servers.
//
//	p, memory := plan.Make(world, memory)
//	for _, want := range p.Services {
//		if next, differs := want.Over(world.Service(want.ID)); differs {
//			// create the Service, or update it to next
//		}
//	}
//
// An export is a Service that a cluster offers through a label or a ServiceExport. In this package,
// the members of an object are the clusters whose exports the object represents. A mirror has one
// member. Each federated Service and each ServiceImport has one member per exporting cluster.
//
// Callers may rely on the following:
//
//   - A plan depends on the exports and on the existing objects, not on the order in which they
//     appeared. The order matters only for names that several objects need, for settled values of
//     ServiceImports (see settled.go), and for removals that [Memory] delays.
//   - If several kinds of objects need the same name, an existing object keeps its name. A mirror's
//     name ends with the name of its link. If several mirrors need the same name, the mirror with
//     the longest link name wins.
//   - A plan changes or deletes an object only if the object is marked as belonging to this
//     installation ([Settings.Marked]). However, a plan may set the conditions of all
//     ServiceExports in the local cluster, and may adopt Services that Linkerd's service mirror
//     created but no longer manages.
//   - A marked object does not influence the plan for other namespaces, because anybody can forge
//     the mark. A member counts toward the limits on exports only if this leader has seen an export
//     for it. A separate limit applies to members that are listed in existing objects, but were not
//     requested by any export. A plan checks whether a cluster has suddenly lost many members. Lost
//     members for which this leader has never seen an export are counted separately for each
//     namespace. Writes for different clusters take turns, and all objects that were not requested
//     by any export share one turn ([SharedTurn]).
//   - A plan does not remove members of a cluster whose exports are unknown. The exports are
//     unknown until this process has synced the cluster ([Cluster].Synced).
//   - Exports are untrusted input. A plan omits and reports values that the API would reject, so
//     that one member's invalid values cannot block the writes for other members.
//   - Functions do not modify their arguments. Results share maps and slices with the arguments, so
//     callers must not modify results or arguments afterwards.
//   - The package has no state, and concurrent calls are safe.
//
// The rules for ServiceImports come from KEP-1645. Mirrors and federated Services have the labels
// and annotations that Linkerd's service mirror writes, so tools that read them keep working.
package plan
