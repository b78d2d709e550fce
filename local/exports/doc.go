// Package exports writes the Services and ServiceImports through which clients reach the exports of
// other clusters. The package also sets the conditions on the local cluster's ServiceExports.
// Package local/exports/plan computes which objects should exist, and [Changes] lists the writes
// that are needed to reach that state. Only one replica writes at a time, because a [Writer] must
// hold a Lease (see local/lease).
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
//   - The writer changes or deletes an object only if the object is marked as belonging to this
//     installation of Isthmus, or if the plan has adopted the object. However, the writer may set
//     the conditions of all ServiceExports in the local cluster. Before each write, the writer
//     reads the object again to verify that Isthmus manages the object.
//   - Each write contains the object's UID and resource version. If the object has changed since
//     the read, the writer reads the object again and retries.
//   - A write begins only while the replica holds the Lease, and is canceled when the Lease is
//     lost. When Run's context is done, Run finishes pending writes within 10 s and then releases
//     the Lease.
//   - While nothing is exported and no objects written by Isthmus exist, replicas do not acquire
//     the Lease.
//   - After a change, the writer waits 50 ms to collect further changes. For up to 1 s after a
//     change, the writer may still begin writes that are based on an older plan.
//   - An object is written at most once a second. An object that keeps changing is written less
//     often, down to once a minute.
//   - At most 50 writes begin per second. Clusters with pending writes take turns, and within a
//     cluster's turn, its namespaces take turns. Objects that are not requested by any export are
//     treated like the objects of one additional cluster.
//   - A failed write does not delay other objects. The writer retries a failed write indefinitely,
//     with a back-off that grows from 1 s to 5 min. Deletions for the same exports wait until the
//     write has succeeded or has failed five times.
//   - The writer does not write an object that already has the planned content. If the API server
//     drops fields that an older CRD lacks, the writer does not write the object again just to
//     restore these fields.
//
// # Linkerd's service mirrors
//
// [Mirrors] finds the links for which a Linkerd service mirror is running, so that Isthmus does not
// write Services for the same links. [Mirrors] also provides the selectors of exported Services in
// linked clusters. Mirrors reads Leases and Links in the namespace of Linkerd's multicluster
// extension.
//
//	m := exports.NewMirrors(exports.MirrorsOptions{
//		Sources:          client.Sources,
//		Leases:           client.Leases,
//		Printable:        client.Printable,
//		Namespace:        "linkerd-multicluster",
//		UnlinkedAfter:    10 * time.Minute,
//		SelectorsChanged: store.RelistServices,
//		Changed:          store.NotifyExports,
//	})
//	go m.Run(ctx)
//	m.Complete(&cluster) // a plan.Cluster
//
// Callers may rely on the following rules for the Leases of service mirrors:
//
//   - While a service mirror holds the Lease of a linked cluster, Isthmus writes neither mirrors of
//     the cluster's Services nor federated Services of which the cluster is a member. The Lease is
//     called service-mirror-write-NAME, where NAME is the name of the link, or of a Link object
//     whose targetClusterName is the name of the link.
//   - While a service mirror holds the Lease local-service-mirror-write, Isthmus does not write
//     federated Services that have the local cluster as a member.
//   - If the service mirror's Lease stays free for the whole UnlinkedAfter period, Isthmus may
//     adopt the objects that Linkerd created. If no read of Leases succeeds for 30 s, the
//     UnlinkedAfter period starts again.
//   - This process measures all times with its own clock, so the clocks of service mirrors may
//     differ from it. Each time this process sees a renewal, it treats the Lease as held for the
//     number of seconds that the Lease specifies, but for at least 10 s. After a restart, a process
//     treats any Lease that has a holder as if the Lease had just been renewed, even if the service
//     mirror has stopped.
//   - While Leases or Links cannot be read, Isthmus does not change objects that Linkerd created.
//
// Callers may rely on the following rules for Link objects:
//
//   - Until Links have been listed, Isthmus neither adds nor removes objects for linked clusters.
//   - If a linked cluster has no Link object, Linkerd's default selectors apply to the cluster. The
//     default selectors also apply if Isthmus lacks permission to read Links, or if the API server
//     does not serve the Link kind. If a cluster has several Links, the selectors of the oldest
//     Link apply.
//   - An empty selector selects nothing.
//   - If a Link is invalid, its last valid version stays in force. If the Link was never valid,
//     Isthmus neither adds nor removes objects for the cluster.
//   - The selectors of a deleted Link stay in force for UnlinkedAfter.
//   - For 1 s after selectors change, Isthmus neither adds nor removes objects for linked clusters,
//     because the new selectors are still being applied.
//
// Isthmus watches Links, and lists Leases every 5 s with one request. Without permission to read
// Links, Isthmus sends three requests every 25 s. If the API server does not serve the Link kind,
// Isthmus sends one API discovery request every 5 s.
//
// Isthmus does not watch Leases, because each service mirror renews its Lease every 2 s, and each
// replica would receive an event for every renewal. With a watch, Isthmus could not tell a stalled
// watch from stopped service mirrors.
//
// # Goroutines
//
// Call New and Run once each. Status may be called at any time. Writer.Run uses one goroutine for
// the election, and one goroutine for each write. Mirrors.Run starts one goroutine in addition to
// the goroutines of package follow.
package exports
