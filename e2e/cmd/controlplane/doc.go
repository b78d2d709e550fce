// Command controlplane runs a Kubernetes control plane on a machine that has
// nothing but this binary: for tests, for the demo, and for looking around.
//
// `controlplane serve` is one cluster in one process: etcd, kube-apiserver and
// a few controllers, on loopback, with the state in a folder. RBAC is on,
// ServiceAccount tokens work, and the CRDs that Isthmus knows are installed
// before the cluster is ready. There are no nodes: a Pod is what
// clients write to the API.
//
// The decisions behind it:
//
//   - It is built from the published modules of Kubernetes and etcd, so that
//     nothing has to be installed. It reports the version of the
//     Kubernetes module it was built with, read from its own build information.
//   - If KUBEBUILDER_ASSETS names a folder with kube-apiserver and etcd, it runs
//     these as child processes. Built with -tags=assets, it has no others: that
//     skips the longest part of the build. The controllers are compiled in.
//   - It is crash-only. There is no orderly shutdown that could go wrong or be
//     skipped: after any signal that ends the process, the same folder can be
//     served again. etcd does not sync to disk, so data survives the end of the
//     process, not that of the machine.
//   - etcd's sockets have short names relative to the cluster's folder, which
//     the process makes its working directory: paths of sockets may only be
//     about a hundred characters long, those of folders may be longer.
package main
