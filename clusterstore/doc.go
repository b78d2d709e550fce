// Package clusterstore turns link Secrets into clusters: a [Store] follows the
// Secrets of a namespace, and for every cluster name that they carry it runs a
// [cluster.Cluster] and enters it into the [federation.Table]. It does not know how
// a cluster is read.
//
//	store, err := clusterstore.NewStore(client, clusterstore.Options{Namespace: "linkerd", Rules: rules, Table: table})
//	go store.Run(ctx)
//	<-store.Settled()
//
// Below it stand clusterstore/cluster (what one cluster offers), clusterstore/kube
// (clients, and all that guards against hostile credentials and servers),
// clusterstore/follow (list and watch), clusterstore/crd (Linkerd's custom resources)
// and clusterstore/serviceprofile (what proxies are sent of one of them).
//
// What callers may rely on:
//
//   - Nothing that a Secret says ends the process, blocks another cluster, or spoils
//     another's endpoints.
//   - A cluster comes and goes with its Secrets. One that can't be reached is tried
//     for ever, and keeps what is known of it.
//   - Of several Secrets for one name the oldest that can be used counts. An edit
//     that makes a Secret unusable changes nothing but its status.
//   - New credentials are tried beside those in use, and take their place in one step
//     once they work: nobody sees a rotation.
//   - Nothing is withdrawn when Run ends.
//   - [Store.Status] has every Secret of the link type, and why it is not served. No
//     log, page or error holds credentials.
//
// [Store.Run] starts one goroutine that follows Secrets and one for each cluster name
// (link.go), which alone decides about that name; each Cluster has its own. Run waits
// for them all. Everything else is safe for concurrent use. Store.mu is held for map
// access only.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package clusterstore
