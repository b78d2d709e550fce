// Package externalworkload writes EndpointSlices for the Services that select
// ExternalWorkloads, as Kubernetes' own controller does for those that select
// Pods. Of all replicas one writes at a time: the [Writer] that holds the Lease.
//
// What callers may rely on:
//
//   - Each Service with a selector has, in slices that are marked as ours, exactly
//     the ExternalWorkloads of its namespace that the selector matches, one
//     endpoint each for each address family of the Service: with its readiness, zone
//     and ports, and in headless Services its name as hostname. Any other
//     Service has none. Slices that are not marked as ours are left alone.
//   - That is a function of the objects, whatever their order and history: slices
//     edited or deleted by others are mended.
//   - A write begins only while the Lease is held, and what is under way when it is
//     lost is broken off: at once when another holder is seen, and 10 s after the
//     last renewal at the latest, which leaves 20 s until another replica may take it.
//     When Run's context ends, the write under way is finished and then the Lease
//     released, so that another replica goes on within seconds. However the API
//     server behaves, that is 10 s at most for each, and Run returns.
//   - A replica that has stood still writes nothing after another has taken the
//     Lease, but for a write that was under way, and leaves the Lease to the other.
//   - Nothing that the API server or an object says ends Run, or keeps another
//     Service from being written, or its retries waiting for others'. What an API
//     server would refuse is left out and reported by Status and one log line, the
//     rest is written. Of a Service with more than 100 ports, which is what the API
//     of EndpointSlices allows, the first 100 are used.
//   - Nothing is deleted after a write of the same Service failed.
//
// Writes are few:
//
//   - A change waits 50 ms for others, and a Service whose slices were written is
//     left alone for a second. So a lone change goes out after 50 ms; of
//     a thousand within a second two or three steps remain.
//   - Only slices with something wrong are touched: each of them takes one write, and
//     there is none beyond these unless what is new does not fit. Endpoints that
//     stay as they are stay in their slice, and with that there is no cheaper
//     way. What is new fills the slices that are written anyway; then slices that
//     would be deleted take it, under their name; then one that it fits into
//     wholly; then new ones. So slices of 100 stay full, but sparse ones are not
//     merged: that would take addresses away for a moment.
//   - When the ports of a Service change, workloads stay in their slices as far as
//     these are full: they go from the old port to the new one in one step.
//
// Decisions:
//
//   - Everything is read by the leader only, by client-go's informers of its own,
//     and let go with the Lease: a replica that waits holds nothing. The leader
//     keeps Services and ExternalWorkloads, without what it does not need,
//     and its own slices.
//   - The Lease, the mark on slices, their names and their contents are those of
//     Linkerd's controller. Either takes over from the other without a write. The
//     exception are Services with unnamed ports, if that one has marked them
//     differently.
//   - client-go's elector holds on to a Lease that it can't renew, or that somebody
//     has taken, for some time. So the lock that it is given ends the term itself.
//   - Namespace kube-system is like any other.
//   - A Service that is being deleted gets no new slices; those that it has are
//     followed. Slices of deleted Services are left to garbage collection.
//   - publishNotReadyAddresses has no say: a workload is as ready as it says.
//   - A workload whose name is no DNS label has no hostname in headless Services.
//     IPv4 addresses written as IPv6 ones count as IPv4.
//   - Slices have the labels of their Service and no others. A controller that
//     labels them is undone each time, and if it insists, that goes on: once a
//     second for each Service at most.
//   - A slice is updated and deleted only as it was read. Who was faster is read
//     first, within a second.
//   - What has been written and is not read back within 2 minutes counts as gone.
//   - A Service that has failed 15 times in a row, over some minutes, is given up
//     until something about it changes, or until the next resync of all, every 10
//     minutes.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package externalworkload
