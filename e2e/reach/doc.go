// Package reach tests how the isthmus command reaches Isthmus replicas through a kubeconfig. The
// tests run the command and the replicas as processes, with real API servers and Nodes that
// implement the port-forward protocol (harness.Kubelet).
//
// ARCHITECTURE.md in the root of the repository describes all packages.
package reach
