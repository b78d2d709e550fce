// Package copies stores the cached objects of stale clusters in ConfigMaps of the local cluster. If
// the API of a linked cluster is unreachable when a replica starts, the replica serves the copy, so
// clients keep the cluster's endpoints. Replicas share copies through ConfigMaps in Isthmus's own
// namespace:
//
//	c := copies.New(copies.Options{Client: client, Namespace: "linkerd", MaxAge: 24 * time.Hour, …})
//	store, err := clusterstore.NewStore(api, clusterstore.Options{ReadCopy: c.Read, …})
//	c.SetCaches(store.Caches)
//	err = c.Run(ctx)
//
// Callers may rely on the following:
//
//   - A cluster is copied once per outage, after the cluster has been stale for 10 s. A replica
//     tries to acquire the Lease only while it has copies to write or to delete. A copy is always
//     written by a replica that has cached the cluster.
//   - A generation is the result of one attempt to copy a cluster, and consists of up to 19
//     ConfigMaps that never change. A generation is complete if all its ConfigMaps exist.
//     Incomplete generations are never read. The leader deletes incomplete generations before it
//     writes a copy. An older complete generation is deleted only after a newer generation is
//     complete.
//   - Running replicas do not verify the contents of stored copies. A generation whose ConfigMaps
//     all exist therefore counts as a copy even if its contents are damaged, and replaces the older
//     generation. When a replica starts, it rejects generations whose contents are damaged.
//   - A copy is deleted when its cluster has been ready for a minute, when its link has been
//     removed, or when the copy reaches the maximum age.
//   - The size of a copy is limited to 16 MiB, and the total size of all copies is limited to 64
//     MiB. Complete copies that are about to be replaced or deleted do not count toward the total.
//     If the copy of a cluster would exceed a size limit, the cluster is not copied, and
//     [Copies.Status] and the metrics report the copy as missing.
//   - A replica writes at most 4 ConfigMaps per second, and retries a failed write twice. If a copy
//     cannot be written, the cluster is copied again after a pause of 10 s to 10 min.
//   - The clocks of replicas may differ by up to a minute. A copy whose timestamp is more than a
//     minute in the future is deleted without being read. If the clocks differ by more than a
//     minute, a copy may be deleted early or late, or written an extra time.
//   - A copy never contains credentials. Any user with permission to write ConfigMaps in Isthmus's
//     own namespace can forge a copy. A replica checks the size, structure, checksum and age of a
//     copy, and decodes the copy exactly like a response from a linked cluster. At most four copies
//     are in memory at the same time. A replica rejects a generation whose description exceeds 4
//     KiB, and considers at most 2048 generations.
//
// ARCHITECTURE.md, at the root of the module, explains how the packages work together.
package copies
