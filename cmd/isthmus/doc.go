// Command isthmus federates services of several clusters for Linkerd proxies.
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
//   - "isthmus gateway" serves the Destination API. Package internal/server implements the command.
//   - The commands clusters, services, exports, explain, check, get and profile query a running
//     replica. Package internal/commands implements these commands.
//   - The commands link, unlink, cordon and uncordon create, change and delete links. Package
//     internal/commands/links implements these commands.
//
// Callers may rely on the following:
//
//   - The exit code is 0 for success, and also after a SIGTERM. The exit code is 1 for a failure,
//     and 2 for invalid arguments. A command with invalid arguments does not change anything.
//   - Standard output carries only results and help. The log goes to standard error.
//   - Only main exits the process.
//
// The tests of this package run the whole program.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package main
