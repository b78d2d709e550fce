// Package lease uses a Lease to elect a leader among replicas, and limits the rate of the leader's
// writes. The election uses client-go's leaderelection. Unlike leaderelection, package lease
// guarantees that two replicas never write at the same time, even if a process is suspended or the
// API server returns errors.
//
// A [Candidate] takes part in an election. While its replica holds the Lease, the Candidate has a
// [Leadership]. In each pass, a [Loop] calls a function that lists the necessary writes, and then
// executes these writes. Packages local/exports and local/externalworkload use a Candidate and a
// Loop:
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
// Callers may rely on the following behavior of an election:
//
//   - Before each write, [Leadership.Write] checks the age of the last renewal. A write never
//     begins more than 10 s after the last renewal. Another replica acquires the Lease no earlier
//     than 30 s after the last renewal. Even a process that was suspended never writes at the same
//     time as the new leader.
//   - Pending writes are canceled as soon as the replica sees that it no longer holds the Lease,
//     and no later than 10 s after the last renewal.
//   - When its context is done, Run keeps renewing the Lease until the last write has ended. After
//     the last write, Run releases the Lease, so that another replica can acquire it within
//     seconds. Run never releases the Lease of another holder.
//   - A request for the Lease takes at most 4 s. Releasing the Lease takes at most 10 s.
//   - The clocks of replicas do not need to agree, because each replica measures the time since it
//     last saw the Lease change. Replicas ignore the times in the Lease.
//   - Callers may call Run again after it has returned, so that a replica can take part in
//     elections only while there is something to write.
//   - Elections for different Leases are independent.
//
// Isthmus uses a Lease in the same way as Linkerd's controller, with the same contents and
// durations, so either program can take over a Lease from the other. Run starts one additional
// goroutine.
//
// Callers may rely on the following behavior of a Loop:
//
//   - When something changes, the Loop waits before the next pass, to collect further changes. The
//     wait is ten times the duration of the previous pass, but at least 50 ms and at most 1 s. The
//     wait ends early if the next pass is already due for another reason.
//   - At most 32 writes are in progress at a time, and at most 4 of them for the same link or
//     namespace. If the writes for one link or namespace hang, the writes for other links and
//     namespaces continue. Pending writes for different links or namespaces take turns. The writes
//     for one link alternate between namespaces.
//   - An object is written at most once a second. An object that keeps changing is written less
//     often, down to once per MaxPause.
//   - A failed write does not delay other objects. The Loop retries a failed write indefinitely,
//     with a back-off that grows from 1 s to 5 min.
//
// ARCHITECTURE.md, at the root of the module, explains how the packages work together.
package lease
