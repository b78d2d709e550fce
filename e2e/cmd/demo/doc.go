// Command demo demonstrates Isthmus on this machine. It starts three real Kubernetes clusters,
// links two of them to the third, and runs Isthmus as a process. One proxy holds a stream for a
// federated Service open. Meanwhile the demo scales, unlinks and kills clusters, and rotates their
// credentials. Later the Service prefers the local cluster, and clusters are cordoned and lost.
// Once, the demo restarts Isthmus while a cluster's API server is down. The proxy then reconnects,
// and its first message must contain all endpoints.
//
// Each step prints the change and its effect on the proxy, and is checked. The proxy must receive
// exactly the endpoints of the ready Pods in the linked clusters that the Service prefers. Endpoints
// that a step does not affect must stay in the proxy's state after every message. The first step
// that fails ends the demo with an explanation and exit code 1.
//
// The demo follows two rules:
//
//   - The expected endpoints come from the clusters' API servers and never from Isthmus.
//   - Everything that the demo starts has a cleanup function from the beginning. The functions run
//     in reverse order, however the demo ends. The processes also end if the demo is killed.
package main
