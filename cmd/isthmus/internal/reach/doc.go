// Package reach opens a cluster that a kubeconfig names: it has clients of its API server for all
// commands (also those that write links), finds replicas in it, and connects to ports of their Pods
// with client-go's port-forward, as kubectl port-forward does.
//
//	cluster, err := options.Open()
//	…
//	defer cluster.Close()
//	replicas, err := cluster.Replicas(ctx) // those that are ready, by name, then the others
//	…
//	conn, err := replicas[0].Dial(ctx, replicas[0].AdminPort)
//
// A replica is a Pod with the label app.kubernetes.io/name=isthmus. A Pod with the label
// linkerd.io/control-plane-component=destination is a replica too if its namespace has none of the
// former, or if its image is Isthmus.
//
// Guarantees:
//
//   - Each port of a Pod that is dialled is forwarded from a free port of 127.0.0.1, until its
//     Cluster is closed. Other users of this machine can connect to that port meanwhile. The
//     connections to it share one connection to the API server: a websocket or, if the server
//     refuses websockets, SPDY. If that connection is lost, the next Dial makes a new one.
//   - Credentials work as they do for kubectl: tokens, certificates, exec plugins,
//     OpenID Connect, or the ServiceAccount of a Pod. None is in any error.
//   - No redirect is followed, no token leaves by plain HTTP, and an answer takes no more than
//     clusterstore/guard lets it. The headers of an answer that opens a connection for forwarded
//     ports have no limit.
//   - Nothing lasts longer than its context, except a program that the kubeconfig names to get
//     credentials, and a request for a forwarded port that the API server does not answer.
//   - Errors name what could not be reached, why, and what to do. They are printable,
//     whatever the cluster has sent.
//   - All other goroutines of a Cluster end when it is closed.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package reach
