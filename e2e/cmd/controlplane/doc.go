// Command controlplane runs a Kubernetes control plane for tests and the demo. It needs no other
// programs.
//
// `controlplane serve` runs one cluster in one process: etcd, kube-apiserver and a few controllers,
// which listen on loopback and store their state in a directory. RBAC is enabled, ServiceAccount
// tokens work, and the CRDs for Isthmus are installed before the cluster is ready. There are no
// nodes. Clients write the status of Pods.
//
// The command is designed as follows:
//
//   - It is built from the published Go modules of Kubernetes and etcd, so that users need not
//     install anything. It reports the version of its Kubernetes module.
//   - If KUBEBUILDER_ASSETS contains a directory with kube-apiserver and etcd, the command runs
//     these as child processes. With -tags=assets, the build leaves out the built-in servers, which
//     are the slowest part to compile. The controllers are always built in.
//   - It has no orderly shutdown. After any signal that ends the process, another process can serve
//     the same directory. etcd does not sync to disk, so the data survives a crash of the process
//     but not of the machine.
//   - etcd's sockets use short paths relative to the cluster's directory, which becomes the working
//     directory of the process. Unlike a directory, a socket cannot have a path longer than about a
//     hundred characters.
package main
