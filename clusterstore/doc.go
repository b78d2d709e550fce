// Package clusterstore turns link Secrets into linked clusters. A [Store] watches the link Secrets
// in one namespace. A label on each link Secret contains a cluster name. For each cluster name, the
// Store runs a [cluster.Cluster] and adds it to the [federation.Table]. A [LocalLink] runs the
// Cluster for the local cluster, which has no link Secret.
//
//	options := clusterstore.Options{Namespace: "linkerd", Rules: rules, Table: table}
//	store, err := clusterstore.NewStore(client, options)
//	go store.Run(ctx)
//	<-store.Settled()
//
// Callers may rely on the following:
//
//   - The content of a Secret cannot crash the process, block another cluster or change the
//     endpoints of another cluster.
//   - A cluster stays linked as long as a link Secret with its name exists. While a cluster is
//     unreachable, the Store keeps retrying, and the cached endpoints stay in use.
//   - If new objects would exceed the memory cap of a cluster, its cache stays unchanged, and the
//     Store retries. A cluster over its memory cap is stale, or unreachable if it has never synced.
//   - At most 32 clusters start concurrently. A cluster stops counting toward this limit after its
//     first sync, after a failed request, or after one second, whichever comes first.
//   - If several Secrets have the same cluster name, the Store uses the oldest valid Secret. If an
//     edit makes that Secret invalid, the Store reports the error and keeps using the previous
//     version.
//   - A change to the address ranges, standing or region of a link takes effect immediately,
//     without a new connection. The Store ignores invalid annotations for the standing and the
//     region.
//   - If a cluster is unreachable when the Store starts, the Store serves the copy of the cluster's
//     cache that [Options].ReadCopy returns. [Store.Caches] returns the caches to copy.
//   - Rotating credentials does not affect proxies. The Store starts another Cluster with the new
//     credentials. The new Cluster replaces the serving Cluster in one step. Before the switch, the
//     new Cluster lists all kinds of objects that the serving Cluster has cached. The file
//     successor.go describes exceptions to this rule.
//   - When Run returns, the table still contains the links and their endpoints.
//   - [Store.Exports] returns the exports of the local cluster and of all linked clusters. The
//     exports of an unusable or unreachable cluster do not change. If several exports are missing
//     from a new list of objects, all of them are removed in one step.
//   - [Store.Status] returns an entry for every link Secret. If a Secret is not used, its entry
//     gives the reason. Logs, web pages and errors never contain credentials.
//
// [Store.Run] starts one goroutine that watches Secrets, and one goroutine per cluster name. Each
// link is changed only by the goroutine for its cluster name. [LocalLink.Run] reconciles the link
// of the local cluster. Each Cluster starts further goroutines. Run returns after all goroutines
// have stopped. All other methods are safe for concurrent use.
//
// Package clusterstore/cluster caches the Services, endpoints and policies of one cluster. Package
// clusterstore/gateway finds the usable Linkerd gateways of a cluster on another network. Package
// clusterstore/follow lists and watches objects, and enforces the memory cap of a cluster. Package
// clusterstore/kube creates clients, and protects them from hostile credentials and servers.
// Package clusterstore/decode decodes single objects in responses from API servers.
//
// ARCHITECTURE.md in the root directory of the module describes how the packages work together.
package clusterstore
