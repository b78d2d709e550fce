// Package adminapi defines the JSON types of the debug API and of command output (-o json).
//
// The page at /, the commands and the tests all use the debug API. Each page of the debug API has
// one of the following types:
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
// If a request contains the query parameter view=list, the response is one of the lists on the page
// at /. The type of the list is [ClusterList] for /debug/clusters, [ServiceList] for
// /debug/services, [StreamList] for /debug/streams, and [EventList] for /debug/events. The
// following parameters select and order the lines of a list: q (words to search for), show (a
// subset of the lines), sort, limit and page. The ETag of a list is the number of the snapshot from
// which the list was computed. All readers share one snapshot.
//
// All pages follow these conventions:
//
//   - A field whose tag contains omitempty or omitzero is omitted if it does not have a value.
//   - Durations use Go's format, such as 1h0m0s. Times use the RFC 3339 format.
//   - Services are written as NAMESPACE/NAME.
//   - The name of the local cluster is "local".
//   - Pages never contain credentials.
//
// The format may change in these ways:
//
//   - New fields may be added. Readers must ignore unknown fields.
//   - The header [FormatHeader] of every response contains [Format], which is the version of the
//     page format. [Build] and [Replica] also contain the version of the page format.
//   - Readers must not interpret a page with a different or missing version, because fields may be
//     missing or have different meanings.
package adminapi
