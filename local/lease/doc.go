// Package lease elects a leader among replicas by a Lease, and limits the pace of the leader's
// writes. The election uses client-go's leaderelection. This package adds a guarantee: no two
// replicas write at the same time, whatever the API server answers and even if a process is
// suspended.
//
// A [Candidate] takes part in an election, and has a [Leadership] while its replica holds the
// Lease. The leader decides in passes what to write, and a [Loop] executes the writes. Packages
// local/exports and local/externalworkload use both:
//
//	c := lease.NewCandidate[leadership]("EndpointSlices", lease.Config{
//		Leases:    client.Leases,
//		Namespace: "linkerd",
//		Name:      "writer",
//		Identity:  podName,
//	}, log)
//	err := c.Run(ctx, begin, func(ctx context.Context, l *leadership) {
//		loop := lease.NewLoop(lease.Options[plan.ID]{Changed: changed, Pass: pass})
//		loop.Run(ctx) // calls pass repeatedly; its tasks write with Leadership.Write
//	})
//
// What callers may rely on about an election:
//
//   - Before each write, [Leadership.Write] checks the age of the last renewal. No write begins
//     more than 10 s after it. Another replica takes the Lease no earlier than 30 s after the last
//     renewal. A process that was suspended therefore does not write beside the new leader.
//   - Pending writes are canceled as soon as the Lease is seen with another holder or none, and no
//     later than 10 s after the last renewal.
//   - When Run's context ends, the Lease is renewed until the last write has ended. Then it is
//     released, so that another replica takes it within seconds. A Lease of another holder is never
//     released.
//   - A request for the Lease takes at most 4 s, and the release at most 10 s.
//   - Clocks of replicas may differ. Each replica measures time from when it saw the Lease change.
//     The times in the Lease are only for readers.
//   - Run may be called again after it has returned. A replica can therefore take part only while
//     there is something to write.
//   - Elections for different Leases are independent.
//
// The contents and times of the Lease are those of Linkerd's controller, so either program takes
// over from the other. Run starts one goroutine besides its own.
//
// What callers may rely on about a Loop:
//
//   - A change waits 50 ms for other changes. Slow passes run less often, so that they take a tenth
//     of the time. Even so, the next pass begins within a second of a change.
//   - At most 32 writes are under way, and at most 4 for each turn (a link or a namespace). A turn
//     whose writes hang therefore does not block others. Turns alternate, and so do the groups
//     within a turn.
//   - An object is written at most once a second. With MaxPause, an object that keeps changing is
//     written less often.
//   - A failed write delays only its own object. It is retried indefinitely, with a back-off from 1
//     s to 5 min.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package lease
