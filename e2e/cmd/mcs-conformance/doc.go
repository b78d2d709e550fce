// Command mcs-conformance runs the conformance suite of the MCS API (KEP-1645) against two clusters
// of real API servers and controllers. In each cluster Isthmus writes exports and is linked to
// the other cluster, with the permissions and definitions of manifests.
//
//	make mcs-conformance MCS_CONFORMANCE=FILE
//
// FILE is the suite, built from a checkout of github.com/kubernetes-sigs/mcs-api:
//
//	cd mcs-api/conformance && go test -c -o FILE .
//
// Everything runs in a network namespace that the command creates, and ends with the command
// (network.go). A kubelet of this command stands in for nodes (node.go): Pods become Running with
// an IPv4 and an IPv6 address, and answer at the port at which the Pods of the suite listen. A
// command that the suite executes in a Pod runs in that network namespace and finds two programs in
// $PATH (client.go): nslookup asks the CoreDNS of the Pod's cluster (dns.go), and nc connects as a
// mesh proxy does, to an endpoint that the cluster's Isthmus names.
//
// docs/mcs.md has the result. The exit status is 1 if a spec of the filter does not pass, and 2 for
// mistakes in the arguments.
package main
