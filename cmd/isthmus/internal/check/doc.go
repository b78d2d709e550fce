// Package check evaluates the contents of a replica's debug pages /debug/clusters and
// /debug/services. Its results say whether the replica has everything it needs, and how to fix what
// is missing. The package sends no requests.
//
//	results := check.Judge(check.Seen{Clusters: page, Services: services})
//
// Before an installation, no replica serves these pages. "isthmus check" then fills in a [Seen]
// from what it reads itself and sets FromHere.
//
// Callers may rely on the following:
//
//   - Every problem has its own result with a hint how to fix it.
//   - A check is Unchecked if the permission to read its input is missing. Its hint says how to
//     grant the permission.
//   - A cluster that does not respond has one Failure. Its other checks are Unchecked.
//   - Texts are copied from the pages. The caller must escape control characters before printing.
package check
