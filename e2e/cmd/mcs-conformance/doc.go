// Command mcs-conformance runs the conformance suite of the MCS API (KEP-1645), which is in a checkout of
// github.com/kubernetes-sigs/mcs-api, against the gateway: two clusters of real API servers and controllers, each with a gateway
// that writes and is linked to the other cluster, with the rights and definitions of manifests.
//
//	make mcs-conformance MCS_API=DIR
//
// There are no nodes. Pods become Running because this command writes that, and nothing runs in them: specs that make requests from
// within a Pod can't pass, or, where the requests must not be answered, prove nothing. They are named.
//
// The suite is built from the checkout, in which nothing is written. docs/mcs.md has the result. The exit status is 1 if a spec of the
// filter does not pass, and 2 for mistakes in the arguments.
package main
