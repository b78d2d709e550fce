// Package externalworkload writes EndpointSlices for the Services that select ExternalWorkloads, as
// the EndpointSlice controller of Kubernetes does for Pods. Only one replica writes at a time,
// because its [Writer] must hold a Lease (see local/lease).
//
//	w, err := externalworkload.New(externalworkload.Options{
//		Client:    client,
//		Namespace: "linkerd",
//		Identity:  podName,
//		Log:       log,
//	})
//	w.Follow(cluster) // which calls w.Changed and w.WorkloadChanged
//	err = w.Run(ctx)
//
// What callers may rely on about contents:
//
//   - Slices with our mark contain exactly the ExternalWorkloads that a Service's selector matches
//     in its namespace. Each workload has one endpoint per address family of the Service.
//   - An endpoint has the readiness, zone and ports of its workload. In a headless Service, it also
//     has the workload's name as hostname.
//   - A Service without a selector has no slices with our mark. Slices without our mark are left
//     alone.
//   - Slices depend only on the current objects, not on their order or history. The writer corrects
//     slices that others edit or delete. While ExternalWorkloads cannot be read, slices do not
//     change.
//   - No endpoint is missing between two writes of slices. After a write of a Service fails, none
//     of its slices is deleted. No slice loses an endpoint that another slice was to receive first.
//   - Endpoints and ports that an API server would reject are left out. Status and one log line
//     report them. The other endpoints and ports of the Service are still written.
//
// What callers may rely on about writes:
//
//   - A write begins only while the replica holds the Lease, and is canceled when the Lease is
//     lost.
//   - When Run's context ends, Run finishes pending writes and then releases the Lease, so that
//     another replica continues within seconds. Each write takes at most 10 s, however the API
//     server behaves, so Run always returns.
//   - No response of the API server and no content of an object ends Run early. A failed write does
//     not delay other Services. It is retried indefinitely, with a back-off from 1 s to 5 min.
//   - Namespaces take turns, and each may have only a few writes under way (see local/lease). A
//     write that hangs for 10 s is canceled. It delays other Services of its namespace only if
//     several writes hang there.
//   - A change waits 50 ms for other changes. A change of a workload waits another 50 ms once its
//     Services are known, or up to a second in a namespace with more than 500 Services.
//   - A Service is written at most once a second. Each slice that differs takes one write, or two
//     if slices exchange endpoints.
//
// The Lease, the mark, and the names and contents of slices are those of Linkerd's controller.
// Either program takes over from the other without a write, unless a Service has unnamed ports.
//
// The writer watches nothing itself. The local cluster ([Cluster]) caches Services,
// ExternalWorkloads and the number of marked slices. The writer does not cache slices: before it
// writes a Service, it lists the Service's slices. This list is never stale. Services and
// ExternalWorkloads may be stale, since a watch that stalls is detected only after about 100 s. A
// new leader with stale watches may replace newer endpoints by older ones until its watches catch
// up.
//
// Call New, Follow and Run once. The other methods may be called at any time. The leader uses
// several goroutines for writes. Other replicas use only Run's goroutine and the one of the
// election.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package externalworkload
