// Package reach checks that people get at gateways by their kubeconfig: the isthmus command as a
// process, real API servers, gateways as processes, and nodes that speak the real port-forward
// protocol (harness.Kubelet). There is nothing in it but tests.
//
// ARCHITECTURE.md, at the root of the repository, shows how the packages of the gateway work together.
package reach
