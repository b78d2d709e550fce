// Package check finds problems in the contents of a replica's /debug/clusters and /debug/services
// pages. Each result describes a problem and how to fix it, or confirms that everything is fine.
// The package does not send requests.
//
//	results := check.Judge(check.Input{Clusters: page, Services: services})
//
// If no replica is installed yet, the command "isthmus check" reads the clusters itself, and sets
// FromHere in the [Input].
//
// Callers may rely on the following:
//
//   - Every problem has a separate result, with a hint about how to fix it.
//   - If the permission to read the input of a check is missing, the result is Unchecked. The hint
//     of the result then says how to grant the permission.
//   - If a cluster does not respond, one check reports a Failure, and the other checks of the
//     cluster are Unchecked.
//   - Results include strings from the pages. The caller must escape control characters before
//     printing the results.
package check
