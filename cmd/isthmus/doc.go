// Command isthmus is a multicluster federation gateway for Linkerd proxies.
//
//	isthmus gateway --kubeconfig ~/.kube/config
//	isthmus clusters
//	isthmus get web.shop.svc.cluster.local:80
//
// The verb gateway serves the Destination API; clusters, services, check, get and profile,
// which are in internal/commands, look into a gateway that runs. "isthmus help" lists
// all verbs. Called kubectl-isthmus, it is a plugin of kubectl. This package has the rest: the gateway's flags (options.go and
// options_….go), how its parts are put together (build.go), started and ended
// (gateway.go, shutdown.go), and the admin HTTP server with its pages (admin.go, pages.go, …_page.go).
//
// Guarantees:
//
//   - Exit codes: 0 for what went as asked (a SIGTERM too), 1 for what failed,
//     2 for arguments that can't be used; then nothing has been started.
//     Standard output carries results and help only, standard error the log.
//   - The flags of Linkerd's destination controller are all accepted under
//     their names, with one dash or two, so that a Linkerd install's arguments
//     work unchanged ("destination" is an alias of "gateway").
//   - The gRPC address is listened on once the gateway is ready, and not before.
//   - The admin address is open from the start and closed last. Its page at /, for
//     people, is in internal/overview, and the lists that this asks for in internal/lists.
//     Readers of a page share it (shared.go), and clients take turns by their addresses
//     (limiter.go): two scrapes at a time, which end after half a minute, four pages, one
//     explanation.
//   - GOGC follows what is in use, unless the environment sets it.
//   - A trace collector that can't be used is logged, no more.
//   - After SIGTERM proxies are handed over to other replicas before serving ends;
//     a second signal ends the process at once. The last spans of traces have half a
//     second after everything else.
//   - Only main ends the process.
//
// Every part of the gateway has a goroutine of its own: the local cluster, the
// linked clusters, the writer of EndpointSlices, the admin server, traces and the
// gRPC server. If one fails, the others are ended and the process fails with it.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package main
