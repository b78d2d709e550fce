// Command isthmus is a multicluster federation gateway for Linkerd proxies.
//
//	isthmus gateway --kubeconfig ~/.kube/config
//	isthmus clusters
//	isthmus get web.shop.svc.cluster.local:80
//
// "isthmus help" lists all commands. Under the name kubectl-isthmus, the program is a kubectl
// plugin.
//
// The commands are:
//
//   - "isthmus gateway" serves the Destination API. It is implemented in internal/server.
//   - The commands clusters, services, exports, explain, check, get and profile query a running
//     replica. They are in internal/commands. If no replica runs, check uses the results of
//     internal/preflight.
//   - The commands link, unlink, cordon and uncordon write links. They are in
//     internal/commands/links.
//
// Callers may rely on the following:
//
//   - The exit code is 0 for success, which includes a SIGTERM. It is 1 for a failure, and 2 for
//     invalid arguments. Invalid arguments have no effect.
//   - Standard output carries only results and help. The log goes to standard error.
//   - Only main exits the process.
//
// The tests of this package run the whole program.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package main
