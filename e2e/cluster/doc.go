// Package cluster runs real Kubernetes control planes for tests and the demo.
//
// A [Cluster] is one process of the controlplane command (etcd, kube-apiserver
// and a few controllers) on loopback, with its state in one folder. It can be
// killed, started again at the same address with the same data and
// credentials, paused and resumed.
//
// Three decisions:
//
//   - One process per cluster, so that one of them can die or hang alone.
//   - This package starts the command and imports none of it, so that tests
//     which need a cluster compile in a second and not in minutes.
//   - A cluster never outlives the process that started it, however that one
//     ends (see package program): it leaves at the end of its standard input.
package cluster
