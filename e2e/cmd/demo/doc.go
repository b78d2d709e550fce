// Command demo shows the gateway at work: it starts three real Kubernetes
// clusters on this machine, links two of them to the third, runs the gateway
// as a process, and holds one proxy's stream of a federated Service open while
// clusters are scaled, unlinked, killed and given new credentials, and then while
// the Service prefers its own cluster and clusters are cordoned and lost.
// Once, demo replaces the process of Isthmus while a cluster's API server is down.
// The proxy then reconnects, and the first message must have all endpoints.
//
// Each step prints what is done and what the proxy saw, and is checked: the
// endpoints must become exactly those of the Pods that are ready in the linked
// clusters that the Service prefers, and no endpoint that a step leaves alone may be
// missing for even one message. The first step that is not as it should be ends the demo
// with an explanation and exit status 1.
//
// The decisions behind it:
//
//   - What should be seen is read from the clusters' API servers, never from
//     the gateway.
//   - Whatever is started is noted at once together with how to undo it, and
//     undone in reverse order, however the demo ends. The processes also end by
//     themselves when the demo is killed.
package main
