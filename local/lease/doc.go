// Package election elects one of several replicas by a Lease, and lets only that one write. The
// election itself is client-go's leaderelection; what is added here is that no replica writes
// beside another one, however the API server answers and even if its process stands still.
//
//	err := election.Run(ctx, election.Config{
//		Leases: client.Leases, Namespace: "linkerd", Name: "writer", Identity: podName, Observe: observe,
//	}, func(ctx context.Context, term *election.Term) {
//		for ctx.Err() == nil {
//			… // read what is to be written
//			err := term.Write(func(ctx context.Context) error { … })
//		}
//	})
//
// Guarantees:
//
//   - Before each write, [Term.Write] checks how long ago the Lease was last renewed: after 10 s no
//     write begins. Another replica takes the Lease 30 s after the last renewal at the earliest, so a
//     process that stood still does not write beside it.
//   - Writes that are under way are cancelled at once when the Lease is seen to have another
//     holder, or none, and 10 s after the last renewal at the latest.
//   - When Run's context ends, the Lease is renewed until the last write has ended. Then it is
//     released, so that another replica takes it within seconds. A Lease of another holder is never
//     released.
//   - A request about the Lease takes 4 s at most, and the release 10 s.
//   - Times in the Lease are for readers: each replica counts from when it saw the Lease change, so
//     their clocks may differ.
//
// Run may be called again after it has returned, so a replica may take part only while there is
// something to write. Elections for different Leases have nothing to do with each other.
//
// The contents of the Lease and the times are those of Linkerd's controller, so either takes over
// from the other. Run has one goroutine beside its own.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package lease
