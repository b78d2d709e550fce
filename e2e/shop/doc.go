// Package shop fills clusters with a small federated shop, and links them, for
// the demo.
//
// A [Cluster] is a running cluster with the Services web and cart in namespace
// shop. In the gateway's own cluster there are also what Linkerd's service
// mirror would have written: the federated Service web-federated, and
// cart-east, a mirror in remote-discovery mode.
//
// The decisions behind it:
//
//   - What can be real is real. Objects are written to real API servers,
//     Pods and EndpointSlices come from the real [Controllers], and credentials
//     are tokens of ServiceAccounts that may do what Linkerd grants them and no
//     more.
//   - What a control plane without nodes lacks, [Cluster.Run] stands in for: it
//     turns Pods into running ones, on nodes that there are not, with addresses
//     of 10.0.0.0/8 that nothing ever dials.
//   - Objects are YAML templates, written by server-side apply: they can be read
//     as what a person would have applied.
package shop
