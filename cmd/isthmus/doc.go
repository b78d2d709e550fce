// Command isthmus is a multicluster federation gateway for Linkerd proxies.
//
//	isthmus gateway --kubeconfig ~/.kube/config
//	isthmus clusters
//	isthmus get web.shop.svc.cluster.local:80
//
// "isthmus help" lists all commands. Called kubectl-isthmus, it is a plugin of kubectl. This package has the list of
// commands (main.go), and nothing else:
//
//   - "isthmus gateway" serves the Destination API: internal/server, with the HTTP server of internal/admin.
//   - clusters, services, exports, explain, check, get and profile look into a gateway that runs: internal/commands.
//     Where none runs, check judges what internal/preflight sees.
//   - link, unlink, cordon and uncordon write links: internal/commands/links.
//
// Guarantees:
//
//   - Exit codes: 0 for what went as asked (a SIGTERM too), 1 for what failed,
//     2 for arguments that can't be used; then nothing has been started.
//     Standard output carries results and help only, standard error the log.
//   - Only main ends the process.
//
// Tests of this package run the whole program.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package main
