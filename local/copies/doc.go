// Package copies stores copies of the caches of lost clusters in the local cluster. A replica that
// starts while a linked cluster's API can't be reached serves the copy, so that no client loses the
// cluster's endpoints. Replicas share copies through ConfigMaps in the namespace of Isthmus:
//
//	c, err := copies.New(copies.Options{Client: client, Namespace: "linkerd", MaxAge: 24 * time.Hour, …})
//	store, err := clusterstore.NewStore(api, clusterstore.Options{ReadCopy: c.Read, …})
//	c.SetCaches(store.Caches)
//	err = c.Run(ctx)
//
// What callers may rely on:
//
//   - A cluster is copied once per outage, when it has been stale for 10 s. A replica takes part in
//     the election for the Lease only while it has something to write or to delete. The leader is
//     therefore always a replica that has the lost cluster in its cache.
//   - A generation is a complete copy: 1 to 19 ConfigMaps that never change. An older generation is
//     deleted only after the newer one is complete. A generation that a replica did not complete is
//     never read.
//   - A copy is deleted once the cluster has been ready for a minute, once its link is gone, and at
//     the maximum age.
//   - A copy has at most 16 MiB, and all copies together have at most 64 MiB. While a cluster is
//     copied again, its older copy does not count. A cluster beyond these limits is not copied.
//     [Copies.Status] and the metrics show it.
//   - At most 4 ConfigMaps are written per second.
//   - A copy never contains credentials. Whoever may write ConfigMaps in the namespace can forge a
//     copy. Its size, its checksum and its age are checked, and it is decoded like the response of a
//     linked cluster.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package copies
