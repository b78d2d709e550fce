// Package exports writes the Services and ServiceImports by which clients reach what other clusters export, and the
// conditions of the own cluster's ServiceExports. What is to be written is decided by local/exports/plan, and listed
// by [Changes]; of all replicas one writes at a time, the [Writer] that holds the Lease, by local/lease.
//
//	w, err := exports.New(exports.Options{
//		Services: client.Services, Leases: client.Leases, Namespace: "linkerd", Identity: podName, World: world, Changed: changed, Log: log,
//	})
//	err = w.Run(ctx)
//
// Guarantees:
//
//   - No object without the gateway's mark is changed or deleted, except those that plan has adopted. Each write
//     begins with a fresh read of its object, which decides that, and carries the object's UID and version: what somebody else has changed
//     meanwhile is read again first.
//   - A write begins only while the Lease is held, and is cancelled when that is lost. When Run's context ends, writes
//     under way are finished, within 10 s, and then the Lease is released.
//   - While nothing is exported and nothing is written, no Lease is taken.
//   - A change waits 50 ms for others; writes of a plan that does not know it begin for 1 s at most. An object is
//     written at most once a second, less often if it goes on changing (down to once a minute), and all of them together at most 50
//     times a second, in turn by link and within that by namespace. Objects that no export asks for share one turn.
//   - A write that fails delays its own object only: it is tried again after 1 s and then ever later, up to 5 min,
//     for ever. Nothing is deleted while a write of the same name fails.
//   - What is equal is not written, nor what the API does not keep: a kind may be older, and have less fields.
//
// New and Run are called once, Status at any time. Run has its goroutine, that of the election, and one for each write.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package exports
