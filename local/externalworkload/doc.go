// Package externalworkload writes EndpointSlices for Services that select ExternalWorkloads, as the
// EndpointSlice controller of Kubernetes does for Services that select Pods. Only one replica
// writes at a time, because a [Writer] must hold a Lease (see local/lease).
//
//	w, err := externalworkload.New(externalworkload.Options{
//		Client:    client,
//		Namespace: "linkerd",
//		Identity:  podName,
//		Log:       log,
//	})
//	w.SetCluster(cluster) // which calls w.Changed and w.WorkloadChanged
//	err = w.Run(ctx)
//
// Callers may rely on the following guarantees about the contents of slices:
//
//   - For each Service, the slices with the writer's managed-by label contain exactly the
//     ExternalWorkloads in the Service's namespace that match the Service's selector. Each workload
//     has one endpoint per address family of the Service.
//   - An endpoint has the readiness, zone and ports of its workload. In a headless Service, a
//     workload name that is a DNS label becomes the endpoint's hostname.
//   - If a Service has no selector, the writer deletes any of the Service's slices that carry the
//     writer's managed-by label. The writer does not change slices that lack its managed-by label.
//   - Slices depend only on the current objects, not on their order or history. The writer restores
//     slices that other clients edit or delete. While ExternalWorkloads cannot be read, slices do
//     not change.
//   - Between two writes, every endpoint is in at least one slice. When an endpoint moves to
//     another slice, the old slice keeps the endpoint until the new slice has been written. After a
//     failed write for a Service, the writer does not delete the Service's slices.
//   - The writer omits endpoints and ports that an API server would reject, and still writes the
//     remaining ones. [Writer.Status] lists the omitted endpoints and ports of each Service, and
//     the writer logs each list when the list changes.
//
// Callers may rely on the following rules for writes:
//
//   - A write begins only while the replica holds the Lease, and is canceled when the Lease is
//     lost.
//   - When Run's context is done, Run finishes pending writes and then releases the Lease, so that
//     another replica can take over within seconds. Each write takes at most 10 s, so a hanging
//     write cannot keep Run from returning.
//   - Run does not return before its context is done, even if the API server returns errors or
//     objects are invalid. A failed write does not delay other Services. The writer retries a
//     failed write indefinitely, with a back-off that grows from 1 s to 5 min.
//   - Namespaces take turns, and each namespace may have only a few writes in progress (see
//     local/lease). A write that hangs for 10 s is canceled. Other Services of the namespace are
//     delayed only if several writes in the namespace hang.
//   - After a change, the writer waits 50 ms to collect further changes. After a change to a
//     workload, the writer searches for the affected Services and then waits another 50 ms. In a
//     namespace with more than 500 Services, this search runs at most once a second.
//   - The slices of a Service are written at most once a second. Each slice that has to change is
//     written once, or twice if slices exchange endpoints.
//
// Isthmus uses the same Lease and the same managed-by label as Linkerd's controller, and writes
// slices with the same names and contents. Either program can take over from the other without
// rewriting slices, unless a Service has unnamed ports.
//
// The writer watches nothing itself. A [Cluster], which represents the local cluster, caches
// Services and ExternalWorkloads, and counts the slices with the writer's managed-by label. The
// writer does not cache slices, but lists a Service's slices before each sync of the Service. The
// list is never stale, because the request does not set resourceVersion. Cached Services and
// ExternalWorkloads may be stale, because a stalled watch is detected only after about 100 s. A new
// leader with stale watches may replace newer endpoints with older ones until its watches catch up.
//
// Call New, SetCluster and Run once each, in this order. Methods other than SetCluster and Run may
// be called at any time. The leader uses several goroutines for writes. A replica that is not the
// leader uses only the goroutine that calls Run, and one goroutine for the election.
//
// ARCHITECTURE.md, at the root of the module, explains how the packages work together.
package externalworkload
