// Package plan decides which Services and ServiceImports Isthmus writes for the exports of the local
// cluster and of all linked clusters. It also decides the verdict on each export. The package is pure:
// it reads and writes no API objects.
//
//	p, memory := plan.Make(world, memory)
//	for _, want := range p.Services {
//		if next, differs := want.Over(world.Service(want.ID)); differs {
//			// create the Service, or update it to next
//		}
//	}
//
// An export is a Service that a cluster offers by a label or by a ServiceExport. A member is one
// cluster's membership in a written object. A mirror has one member. A federated Service and a
// ServiceImport have one member for each exporting cluster.
//
// Callers may rely on the following:
//
//   - A plan depends on the exports and on the objects that exist, not on the order in which they
//     appeared. The exceptions are names that several kinds of objects want, settled values of
//     ServiceImports (see settled.go), and what [Memory] holds back for a time.
//   - If several kinds of objects want one name, the kind that already has the name keeps it. Among
//     mirrors, the names of the links decide.
//   - A plan changes and deletes only objects with the mark ([Settings.Marked]). The one exception
//     is a Service that Linkerd's service mirror wrote and no longer manages. A plan adopts it.
//   - An object with the mark influences only itself, because anybody can forge the mark. Limits,
//     turns and mass losses count only members that an export asked for while this leader led.
//     Members that only an object names have a limit of their own.
//   - A member stays while the exports of its cluster are not known. A plan removes nothing of a
//     cluster that this replica has not yet seen in sync ([Cluster].Seen).
//   - Exports are untrusted input. A plan leaves out values that the API would reject, and reports
//     them. Such values cannot prevent the writes of other members.
//   - Functions do not modify their arguments. Results share maps and slices with the arguments, so
//     callers must not modify either afterwards.
//   - The package has no state. Calls may be concurrent.
//
// The rules for ServiceImports come from KEP-1645. Mirrors and federated Services have the labels and
// annotations that Linkerd's service mirror writes, so tools that read them keep working.
package plan
