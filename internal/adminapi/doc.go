// Package adminapi has the types of what a gateway's admin server shows as JSON, and of what
// commands print with -o json (commands.go). The gateway writes the former, and its page at /, the
// commands and the tests read them, so that each thing has one type and its documentation one
// place.
//
// The pages, and the type of each:
//
//	/debug/clusters  [Clusters]
//	/debug/events    [Events]
//	/debug/explain   [Explanation]
//	/debug/exports   [Exports]; there is none without --exports
//	/debug/impact    [Impact]
//	/debug/services  a list of [Service]
//	/debug/streams   [Streams]
//	/debug/version   [Build]
//
// Some of clusters, services, streams and events are asked for by view=list, with q (words to
// search for), show (a part of the lines), sort, limit and page: the answer is a [ClusterList],
// [ServiceList], [StreamList] or [EventList], and its ETag the number of the snapshot that all
// readers share.
//
// A field with omitempty or omitzero in its tag is left out where it has no value. Durations are
// written as in Go, such as 1h0m0s, times as in RFC 3339. A service is written NAMESPACE/NAME. The
// gateway's own cluster has the name "local". Nothing here holds credentials.
//
// Fields may be added. Readers of a page have to ignore those that they do not know. Every answer has the number of the
// pages' format ([Format]) in the header [FormatHeader]. [Build] and [Replica] have the number too. Do not judge a page
// with another number, or without one: its fields may mean something else, or be missing.
package adminapi
