// Package apisim is a light Kubernetes API server for tests: it serves list and watch of what the gateway reads, over
// HTTPS and to bearers of known tokens, and can be made to misbehave. Hundreds of them fit into one process. Objects
// are written by Put and Delete, in this process, and by clients if a server takes writes. Nothing else checks,
// defaults or garbage-collects them.
//
// What clients may rely on, since real API servers do the same (a test compares them):
//
//   - Lists are pages of one moment, in the order of keys. Watches go on from a list's version without a gap, or end
//     because the version has expired; they may begin with all objects, after which comes a bookmark.
//   - Deletions bring the object as it last was, with the version of its deletion.
//   - Answers are in protobuf or JSON, as the client prefers, of whole objects or, if asked for, of their metadata
//     alone. Objects of CRDs are in JSON.
//   - With TakeWrites, objects are read, created, updated and deleted one by one. What exists is not created, what
//     has another version or UID than is asked for is neither updated nor deleted. A Service gets a ClusterIP when a client creates it, and keeps that. The status of
//     CRDs' objects is written by itself.
//   - A request that fails is answered with a Status.
//   - API discovery has the groups, and the resources of each version, that are served. It has no aggregated form.
//
// What is not served is refused: label selectors, field selectors other than a Secret's type, patches, subresources
// other than the status of CRDs' objects, deletions of many objects.
package apisim
