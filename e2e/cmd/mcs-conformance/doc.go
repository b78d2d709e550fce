// Command mcs-conformance runs the conformance suite of the MCS API (KEP-1645) against two clusters
// with real API servers and controllers. In each cluster, Isthmus writes exports and is linked to
// the other cluster. The permissions and CRDs come from manifests.
//
//	make mcs-conformance MCS_CONFORMANCE=FILE
//
// FILE is the suite, built from a checkout of github.com/kubernetes-sigs/mcs-api:
//
//	cd mcs-api/conformance && go test -c -o FILE .
//
// Everything runs in a network namespace, which the command creates and which ends with the command
// (network.go). A simulated kubelet stands in for nodes (node.go). It marks Pods as Running,
// assigns an IPv4 and an IPv6 address, and listens on the port of the suite's Pods. The suite
// executes commands in Pods. These commands run in the network namespace and find two programs in
// $PATH (client.go): nslookup queries the CoreDNS of the Pod's cluster (dns.go), and nc connects
// like a mesh proxy to an endpoint returned by the cluster's Isthmus.
//
// The results are in docs/mcs.md. The exit code is 1 if a selected spec does not pass, and 2 for
// invalid arguments.
package main
