// Package exports writes the Services and ServiceImports that give clients access to the exports of
// other clusters, and the conditions of the local cluster's ServiceExports. Package
// local/exports/plan decides what to write, and [Changes] lists the writes. Only one replica writes
// at a time: its [Writer] holds the Lease (see local/lease).
//
//	w, err := exports.New(exports.Options{
//		Services:  client.Services,
//		Leases:    client.Leases,
//		Namespace: "linkerd",
//		Identity:  podName,
//		World:     world,
//		Changed:   changed,
//		Log:       log,
//	})
//	err = w.Run(ctx)
//
// What callers may rely on:
//
//   - The writer changes or deletes only objects with the mark of Isthmus and objects that the plan
//     has adopted. Each write first reads its object and checks this rule on the result.
//   - Each write carries the object's UID and resource version. If somebody else has changed the
//     object meanwhile, the writer reads it again before it retries.
//   - A write begins only while the replica holds the Lease, and is canceled when the Lease is
//     lost. When Run's context ends, Run finishes pending writes within 10 s and then releases the
//     Lease.
//   - While nothing is exported and nothing is written, no replica takes the Lease.
//   - A change waits 50 ms for other changes. Writes of an older plan may begin for up to 1 s after
//     a change.
//   - An object is written at most once a second. If it keeps changing, it is written less often,
//     down to once a minute.
//   - At most 50 writes begin per second. Links take turns, and so do the namespaces within a link.
//     Objects that no export asks for share one turn.
//   - A failed write delays only its own object. It is retried indefinitely, with a back-off from 1
//     s to 5 min. Until a write has failed five times, it also delays deletes for the same exports.
//   - An object that already has the wanted content is not written. The writer also does not repeat
//     fields that an older version of the kind drops.
//
// Call New and Run once. Status may be called at any time. Run uses its own goroutine, one for the
// election, and one for each write.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package exports
