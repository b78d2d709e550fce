// Package externalworkload writes EndpointSlices for the Services that select
// ExternalWorkloads, as Kubernetes' own controller does for those that select
// Pods. Of all replicas one writes at a time: the [Writer] that holds the Lease, by
// local/lease.
//
//	w, err := externalworkload.New(externalworkload.Options{
//		Client: client, Namespace: "linkerd", Identity: podName, Log: log,
//	})
//	w.Follow(cluster) // which calls w.Changed and w.WorkloadChanged
//	err = w.Run(ctx)
//
// Guarantees:
//
//   - A Service with a selector has, in slices that are marked as ours, exactly the
//     ExternalWorkloads of its namespace that the selector matches: one endpoint
//     each for each address family of the Service, with its readiness, zone and
//     ports, and in headless Services its name as hostname. Any other Service has
//     none. Slices that are not marked as ours are left alone.
//   - The slices depend on the objects as they are, not on their order and history:
//     slices that others edit or delete are corrected. While ExternalWorkloads can't be read,
//     slices stay as they are.
//   - A write begins only while the Lease is held, and is cancelled when that is lost;
//     local/lease has the rules. When Run's context ends, the writes under way are
//     finished and then the Lease released, so that another replica continues within
//     seconds. However the API server behaves, each takes at most 10 s, and Run returns.
//   - Whatever the API server or an object contains, Run goes on, other Services are
//     written, and their retries do not wait. What fails is tried again for ever, 1 s to 5 min apart.
//     What an API server would refuse is left out and reported by Status and one log line;
//     the rest is written.
//   - No namespace holds up the others: they take turns, and each has a few writes under way
//     at most; local/lease has the rules. A write that hangs is given up after
//     10 s, and delays its own Service only, unless several of the namespace do.
//   - No endpoint is missing between two writes of slices; once one has failed, none of the same Service
//     is deleted, nor loses endpoints that were to come into others first (order.go).
//   - Writes are few: a change waits 50 ms for others, and one of a workload as long again
//     once it is known which Services select it, or up to a second in a namespace with more than 500
//     of them; a Service is written at most once a second, and each slice that differs takes one write,
//     or two where slices exchange endpoints (plan.go).
//
// The Lease, the mark on slices, their names and their contents are those of
// Linkerd's controller: either takes over from the other without a write, unless a
// Service has unnamed ports.
//
// A writer follows nothing by itself. Services, ExternalWorkloads and which slices have the mark come
// from the own cluster ([Cluster]), which has read them anyway. The slices themselves are not kept:
// before a Service is written, its own are read by one list, which is never old (sync.go). Services and
// ExternalWorkloads may be old: a watch that has stopped without a word is given up after some 100 s only. So a
// new leader whose watches lag may put older endpoints in place of newer ones, until its watches have caught up.
//
// New, Follow and Run are called once; the other methods may be called at any time. While it leads, a
// writer has some goroutines that write; otherwise no goroutine but Run's.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package externalworkload
