// Package reach opens a cluster that a kubeconfig names: it has clients of its API server, by HTTP/1.1
// only, for all verbs (also those that write links), finds gateways in it, and connects to ports of
// their Pods through the API server, as kubectl port-forward does.
//
//	cluster, err := options.Open()
//	…
//	defer cluster.Close()
//	gateways, err := cluster.Gateways(ctx) // those that are ready, by name, then the others
//	…
//	conn, err := gateways[0].Dial(ctx, gateways[0].AdminPort)
//
// A gateway is a Pod with the label app.kubernetes.io/name=isthmus. A Pod with the label
// linkerd.io/control-plane-component=destination is a gateway too if its namespace has none of the
// former, or if its image is Isthmus.
//
// Guarantees:
//
//   - No port is opened on this machine: a [Conn] is one stream in one connection to
//     the API server, over a websocket or, where that is refused, over SPDY.
//   - Credentials work as they do for kubectl: tokens, certificates, exec plugins,
//     OpenID Connect, or the ServiceAccount of a Pod. None is in any error.
//   - No redirect is followed, no token leaves by plain HTTP, and an answer takes no more than
//     clusterstore/guard lets it, and no more than 10 MiB of headers: also one that opens a connection.
//   - Nothing lasts longer than its context, except a program that the kubeconfig
//     names to get credentials.
//   - Errors name what could not be reached, why, and what to do. They are printable,
//     whatever the cluster has sent.
//   - A Conn that is closed has no goroutine left, nor has a Cluster that is closed.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package reach
