// Package adminapi defines the JSON types of the debug API and of command output (-o json).
//
// Isthmus writes the pages of the debug API. The page at /, the commands and tests read them.
//
// The pages have the following types:
//
//	/debug/clusters  [Clusters]
//	/debug/events    [Events]
//	/debug/explain   [Explanation]
//	/debug/exports   [Exports]; missing if --exports is off
//	/debug/impact    [Impact]
//	/debug/services  a list of [Service]
//	/debug/streams   [Streams]
//	/debug/version   [Build]
//
// The query parameter view=list requests a part of the clusters, services, streams or events. The
// parameters q (words to search for), show (a subset of the lines), sort, limit and page select the
// part. The response is a [ClusterList], [ServiceList], [StreamList] or [EventList]. Its ETag is
// the number of a snapshot that all readers share.
//
// Conventions of all pages:
//
//   - A field whose tag has omitempty or omitzero is omitted if it has no value.
//   - Durations are written as in Go, such as 1h0m0s. Times are written as in RFC 3339.
//   - A service is written NAMESPACE/NAME.
//   - The local cluster has the name "local".
//   - No page contains credentials.
//
// Compatibility:
//
//   - New fields may be added. Readers must ignore fields that they do not know.
//   - Every response has the version of the pages' format, [Format], in the header [FormatHeader].
//     [Build] and [Replica] contain it too.
//   - A reader must not interpret a page with another format, or without one. The fields of such a
//     page may have another meaning or be missing.
package adminapi
