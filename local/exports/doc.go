// Package exports writes the Services and ServiceImports through which clients reach the exports of
// other clusters. The package also writes the conditions of the local cluster's ServiceExports.
// Package local/exports/plan decides what to write, and [Changes] lists the writes. Only one
// replica writes at a time, because its [Writer] must hold a Lease (see local/lease).
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
// Callers may rely on the following:
//
//   - The writer changes or deletes only objects with the mark of Isthmus and objects that the plan
//     has adopted. Before each write, the writer reads the object and checks this rule.
//   - Each write contains the object's UID and resource version. If the object has changed in the
//     meantime, the writer reads the object again and retries.
//   - A write begins only while the replica holds the Lease, and is canceled when the Lease is
//     lost. When Run's context ends, Run finishes pending writes within 10 s and then releases the
//     Lease.
//   - While there are neither exports nor written objects, replicas do not take the Lease.
//   - The writer waits 50 ms after a change to collect further changes. For up to 1 s after a
//     change, the writer may still begin writes of an older plan.
//   - An object is written at most once a second. An object that keeps changing is written less
//     often, down to once a minute.
//   - At most 50 writes begin per second. Links take turns, and the namespaces of a link take
//     turns. All objects that no export asks for share one turn.
//   - A failed write does not delay other objects. The writer retries the write indefinitely, with
//     a back-off from 1 s to 5 min. Until a write has failed five times, it also delays deletions
//     for the same exports.
//   - The writer does not write an object that already has the wanted content. The writer also does
//     not rewrite fields that an older version of the kind drops.
//
// Call New and Run once. Status may be called at any time. Besides its own goroutine, Run uses one
// goroutine for the election and one for each write.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package exports
