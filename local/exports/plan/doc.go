// Package plan decides which Services and ServiceImports the gateway writes for the exports of
// the own and all linked clusters, and what becomes of each export. It reads and writes nothing itself:
//
//	p, memory := plan.Make(world, memory)
//	for _, want := range p.Services {
//		if next, differs := want.Over(world.Service(want.ID)); differs {
//			// create it, or update it to next
//		}
//	}
//
// What callers may rely on:
//
//   - What is wanted depends on what is exported and what is there, not on the order in which that came
//     about, with three exceptions: of several kinds of objects that want one name the one that has it keeps it
//     (among mirrors, link names decide),
//     a ServiceImport that is a minute old keeps its type and ports against younger exports and newcomers, and
//     what is held back for a time is in the [Memory].
//   - No object without the mark ([Settings.Marked]) is ever changed or deleted, except Services that
//     Linkerd's service mirror wrote and no longer minds, which are adopted.
//   - An object with the mark influences nothing but itself, since anybody may have forged the
//     mark. Limits, turns and mass losses count members that an export asked for while the leader
//     led. Parts that only an object names are followed within a bound of their own.
//   - A member of a cluster whose exports are not known is kept. Nothing is removed for a cluster that has
//     not been seen in sync.
//   - What an exporting cluster sends is data: what the API would refuse of it is left out and
//     reported, so that it can't keep the members of others from being written.
//   - Nothing that is passed in is changed, and results share its maps and slices: neither may be
//     changed afterwards. There is no state, so calls may be concurrent.
//
// An *export* is a Service that a cluster offers by a label or a ServiceExport, a *member* is what a cluster has in a
// written object: all of a mirror, its membership in a federated Service or ServiceImport.
//
// Rules of ServiceImports come from KEP-1645; labels and annotations of mirror and federated Services are those of
// Linkerd's service mirror, so that all that reads them keeps working.
package plan
