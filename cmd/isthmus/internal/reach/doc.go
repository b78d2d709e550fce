// Package reach connects to a cluster that is defined in a kubeconfig. The package provides API
// server clients for all commands except "isthmus gateway". The package also finds the replicas of
// Isthmus in the cluster and connects to their Pods. Like kubectl port-forward, the package uses
// client-go's port forwarding.
//
//	cluster, err := options.Open()
//	…
//	defer cluster.Close()
//	replicas, err := cluster.Replicas(ctx) // the ready replicas by name, then the others
//	…
//	conn, err := replicas[0].Dial(ctx, replicas[0].AdminPort)
//
// Every Pod with the label app.kubernetes.io/name=isthmus is a replica. A Pod with the label
// linkerd.io/control-plane-component=destination is a replica if it runs an Isthmus image, or if no
// Pod in its namespace has the label app.kubernetes.io/name=isthmus.
//
// Callers may rely on the following:
//
//   - Until the Cluster is closed, the package forwards a free port on 127.0.0.1 to a port of a
//     Pod. Other users of the machine can also connect to the port on 127.0.0.1.
//   - All connections to one port share one connection to the API server. The shared connection is
//     a WebSocket, or uses SPDY if the server refuses WebSockets. If the shared connection is lost,
//     the next call to Dial opens a new one.
//   - Credentials work as in kubectl: tokens, certificates, exec plugins, OpenID Connect, or the
//     ServiceAccount of a Pod. Errors never contain credentials.
//   - Clients do not follow redirects, and never send tokens over plain HTTP. Package guard limits
//     the size of responses, but not the size of the headers of a response that opens a
//     port-forwarding connection.
//   - A call ends when its context ends, except while a credential plugin from the kubeconfig is
//     running, or while the API server does not respond to a port-forward request.
//   - Errors name the object that could not be reached, the reason and the remedy. Errors contain
//     no control characters, even if the cluster sends some.
//   - All background goroutines of a Cluster end when the Cluster is closed.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package reach
