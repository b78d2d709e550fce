// Package lease elects one of several replicas by a Lease, and lets only that one write, at a limited pace. The
// election itself is client-go's leaderelection. What is added here is that no replica writes
// beside another one, however the API server answers and even if its process stands still.
//
// A [Candidate] takes part in an election, and has a [Leadership] while its replica holds the Lease. The leader
// decides in passes what is to be written, and a [Loop] makes the writes. Both are shared by local/exports and
// local/externalworkload:
//
//	c := lease.NewCandidate[leadership]("EndpointSlices", lease.Config{Leases: client.Leases, Name: "writer", Identity: podName}, log)
//	err := c.Run(ctx, begin, func(ctx context.Context, l *leadership) {
//		loop := lease.NewLoop(lease.Options[plan.ID]{Changed: changed, Pass: pass})
//		loop.Run(ctx) // which calls pass again and again; its tasks write with Leadership.Write
//	})
//
// Guarantees of an election:
//
//   - Before each write, [Leadership.Write] checks how long ago the Lease was last renewed: after 10 s no
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
// Guarantees of a Loop:
//
//   - A change waits 50 ms for others. What takes long to decide is decided less often, so that a tenth of the time
//     goes into it, but within a second of a change.
//   - At most 32 writes are under way, 4 of these of one turn: a link or namespace whose writes hang leaves room to
//     the others. They take turns, and within one turn those within it do.
//   - An object is written at most once a second. With MaxPause that becomes less often if it goes on changing.
//   - A write that fails delays its own object only: it is tried again after 1 s and then ever later, up to 5 min,
//     for ever.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package lease
