// Package shop fills and links the clusters of the demo with a small federated shop.
//
// A [Cluster] is a running cluster with the Services web and cart in the namespace shop. The local
// cluster also contains the objects that Linkerd's service mirror would write: the federated
// Service web-federated, and cart-east, a mirror in remote-discovery mode.
//
// Most parts are real, and the rest is simulated:
//
//   - Objects are written to real API servers, and real [Controllers] create Pods and
//     EndpointSlices. Credentials are tokens of ServiceAccounts that only have the permissions
//     granted by Linkerd.
//   - [Cluster.Run] simulates the nodes. It assigns Pods to nodes that do not exist, with addresses
//     in 10.0.0.0/8 that receive no connections.
//   - Objects are YAML templates for server-side apply, which a user could apply in the same way.
package shop
