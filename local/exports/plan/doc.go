// Package plan decides which Services and ServiceImports Isthmus writes for the exports of the
// local cluster and of all linked clusters. The package also returns a verdict on each export. The
// package is pure: it reads and writes no API objects.
//
//	p, memory := plan.Make(world, memory)
//	for _, want := range p.Services {
//		if next, differs := want.Over(world.Service(want.ID)); differs {
//			// create the Service, or update it to next
//		}
//	}
//
// An export is a Service that a cluster offers through a label or a ServiceExport. A member is one
// cluster's membership in a written object. A mirror has one member. A federated Service and a
// ServiceImport have one member for each exporting cluster.
//
// Callers may rely on the following:
//
//   - A plan depends on the exports and on the existing objects, not on the order in which they
//     appeared. There are three exceptions: names that several kinds of objects want, settled
//     values of ServiceImports (see settled.go), and removals that [Memory] delays.
//   - If several kinds of objects want the same name, the kind that already has the name keeps it.
//     If several mirrors want the same name, the names of their links decide.
//   - A plan changes and deletes only objects with the mark ([Settings.Marked]), with one
//     exception. A plan adopts a Service that Linkerd's service mirror wrote and no longer manages.
//   - An object with the mark does not influence the plan for other objects, because anybody can
//     forge the mark. Limits, turns and mass losses count only members that an export has asked for
//     since this replica became the leader. Members that only an object names have a separate
//     limit.
//   - A member stays while the exports of its cluster are not known. A plan does not remove members
//     of a cluster that has not synced since this replica began to write ([Cluster].Synced).
//   - Exports are untrusted input. A plan omits and reports values that the API would reject.
//     Invalid values of one member therefore cannot prevent the writes of other members.
//   - Functions do not modify their arguments. Results share maps and slices with the arguments, so
//     callers must not modify results or arguments afterwards.
//   - The package has no state. Calls may be concurrent.
//
// The rules for ServiceImports come from KEP-1645. Mirrors and federated Services have the labels and
// annotations that Linkerd's service mirror writes, so tools that read them keep working.
package plan
