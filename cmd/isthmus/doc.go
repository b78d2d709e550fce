// Command isthmus federates services from several clusters for Linkerd proxies.
//
//	isthmus gateway --kubeconfig ~/.kube/config
//	isthmus clusters
//	isthmus get web.shop.svc.cluster.local:80
//
// "isthmus help" lists all commands. If the executable is named kubectl-isthmus, the program acts
// as a kubectl plugin.
//
// The following packages implement the commands:
//
//   - Package internal/server implements "isthmus gateway", which serves the Destination API.
//   - Package internal/commands implements the commands that query a running replica: clusters,
//     services, exports, explain, check, get and profile.
//   - Package internal/commands/links implements the commands that create, change and delete links:
//     link, unlink, cordon and uncordon.
//
// Callers may rely on the following:
//
//   - The exit code is 0 for success, 1 for a failure, and 2 for invalid arguments. On SIGTERM,
//     "isthmus gateway" shuts down and exits with code 0. A command with invalid arguments does not
//     change anything.
//   - Standard output carries only results and help. The log goes to standard error.
//   - Only main exits the process.
//
// The tests of this package run the whole program.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package main
