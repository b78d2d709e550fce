// Package node runs gateways as a cluster's nodes would run the Pods of their Deployment: as processes of this machine.
//
//	n := node.New(node.Config{Client: west, Selector: …, Container: "isthmus", Service: "isthmus", …})
//	n.Run(ctx)
//
// What decides when Pods come and go is real: Kubernetes' controllers for Deployments, ReplicaSets, EndpointSlices and
// PodDisruptionBudgets. This package does what is left to do for a cluster with nodes:
//
//   - Scheduling: a Pod goes to the node that has the fewest Pods of its ReplicaSet, as its spread constraint asks for.
//   - The kubelet's part: the container runs as package pod has it. Its Pod is ready with the first readiness probe, in the
//     template's rhythm, that succeeds. When the Pod is deleted, the process gets SIGTERM, and SIGKILL when its grace is over.
//   - DNS: the records of the headless Service are the addresses that its EndpointSlices have as ready.
//
// It looks at the API ten times a second, so what it does is late by up to that.
package node
