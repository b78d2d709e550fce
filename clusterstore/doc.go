// Package clusterstore turns link Secrets into linked clusters. A [Store] watches the link Secrets
// of one namespace. For each cluster name on their labels, the Store runs a [cluster.Cluster] and
// links it in the [federation.Table]. A [LocalLink] does the same for the local cluster, which has
// no Secret.
//
//	options := clusterstore.Options{Namespace: "linkerd", Rules: rules, Table: table}
//	store, err := clusterstore.NewStore(client, options)
//	go store.Run(ctx)
//	<-store.Settled()
//
// What callers may rely on:
//
//   - The content of a Secret can't end the process, block another cluster or affect the endpoints
//     of another cluster.
//   - A linked cluster lives as long as its Secrets. An unreachable cluster is retried forever, and
//     its cached endpoints stay in use.
//   - A cluster that would exceed its memory cap keeps its cache. Its state is stale, or
//     unreachable if it has never synced, and it is retried.
//   - At most 32 clusters start at a time. A cluster gives up its turn once it has synced or a
//     request has failed, and after a second at the latest.
//   - If several Secrets have the same cluster name, the oldest valid Secret is used. An edit that
//     makes the Secret in use invalid only changes its status.
//   - A change of a link's address ranges, standing or region takes effect in one step, without a
//     new connection. Invalid values of the standing and region annotations count as unset.
//   - Credentials rotate without an effect on proxies. Another cluster starts with the new
//     credentials, and replaces the serving cluster in one step once it has synced. The new cluster
//     first waits for each kind of object that the serving cluster has, unless that kind is given
//     up (successor.go).
//   - When Run returns, the table still has its links and endpoints.
//   - [Store.Exports] returns the exports of the local cluster and of all linked clusters. Exports
//     of an unusable or unreachable cluster stay as they were. All removals by one list take effect
//     in one step.
//   - [Store.Status] lists every Secret of the link type, with the reason if it is not used. No
//     log, page or error contains credentials.
//
// [Store.Run] starts one goroutine that watches Secrets, and one goroutine for each cluster name.
// Only that goroutine changes the link. [LocalLink.Run] runs the same code for the local cluster.
// Each Cluster starts further goroutines. Run waits for all of them. All other methods are safe for
// concurrent use.
//
// These packages do the work below this one:
//
//   - clusterstore/cluster caches what one cluster offers.
//   - clusterstore/gateway finds the usable Linkerd gateways of a cluster on another network.
//   - clusterstore/follow lists and watches objects, within the memory cap of a cluster.
//   - clusterstore/kube makes clients, and protects them from hostile credentials and servers.
//   - clusterstore/decode decodes single objects from responses.
//
// ARCHITECTURE.md in the module's root shows how the packages work together.
package clusterstore
