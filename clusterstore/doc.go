// Package clusterstore turns link Secrets into clusters: a [Store] watches the
// Secrets of a namespace, runs a [cluster.Cluster] for every cluster name on their
// labels, and links it in the [federation.Table]. A [LocalLink] does the same with the
// local cluster, which has no Secret. Package clusterstore/cluster reads a
// cluster.
//
//	store, err := clusterstore.NewStore(client, clusterstore.Options{Namespace: "linkerd", Rules: rules, Table: table})
//	go store.Run(ctx)
//	<-store.Settled()
//
// Below it stand clusterstore/cluster (what one cluster offers), clusterstore/kube (clients, and
// all protection against hostile credentials and servers), clusterstore/follow (list and watch, and
// the memory cap of a cluster),
// clusterstore/crd (Linkerd's custom resources) and clusterstore/serviceprofile
// (ServiceProfiles as proxies get them). What is exported is kept as local/exports/plan has it.
//
// What callers may rely on:
//
//   - No content of a Secret ends the process, blocks another cluster, or affects
//     another's endpoints.
//   - A cluster that would take more memory than its budget keeps what it had. Its
//     state is stale, or unreachable if it has never synced, and it is tried again.
//   - A cluster comes and goes with its Secrets. One that can't be reached is retried
//     for ever, and keeps the endpoints that were read before.
//   - Of many clusters 32 at a time are started, which others wait for: until they have
//     synced or a request has failed, and for a second at most.
//   - Of several Secrets with one cluster name the oldest valid one is used. An edit
//     that makes a Secret invalid changes nothing but its status.
//   - A link's address ranges change in one step, without a new connection, and so do the
//     cluster's standing and region. What can't be read of the latter counts as absent.
//   - New credentials are tried beside those in use, and replace them in one step once
//     their cluster has synced: proxies don't notice a rotation. A rotation takes no endpoint
//     away because the new credentials can't list a kind of object that the cluster has:
//     they wait for that kind (promotion.go).
//   - When Run ends, the table keeps its links and endpoints.
//   - [Store.Exports] has what the own and all linked clusters export. Nothing of a cluster that can't be used or
//     read goes from it, and what one list takes away goes in one step.
//   - [Store.Status] lists every Secret of the link type, and why it is not served. No
//     log, page or error holds credentials.
//
// [Store.Run] starts one goroutine that watches Secrets and one for each cluster name
// (link.go), the only one that changes that link; each Cluster has goroutines of its
// own. Run waits for them all. [LocalLink.Run] is the same goroutine for the local cluster (local.go). Everything
// else is safe for concurrent use. Store.mu is held for map access only.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package clusterstore
