// Command isthmus is a multicluster federation gateway for Linkerd proxies.
//
// It has three working verbs: gateway serves the Destination API, get and
// profile show what a proxy would be told about a destination, live. "isthmus
// help" lists them all.
//
// Promises:
//
//   - Exit codes: 0 for what went as asked (a SIGTERM too), 1 for what failed,
//     2 for arguments that can't be used; then nothing has been started.
//     Standard output carries results and help only, standard error the log.
//   - The flags of Linkerd's destination controller are all accepted under
//     their names, with one dash or two, so that a Linkerd install's arguments
//     work unchanged ("destination" is an alias of "gateway").
//   - Only main ends the process; it does nothing but call run.
//
// Decisions:
//
//   - The gRPC address is listened on only once the gateway is ready, so that no
//     client hangs in the backlog of a server that does not answer yet: it is
//     refused at once and asks another replica. Whether the address can be had
//     at all is tried right at the start, by opening and closing it, so that a
//     typing error does not show after the caches are filled only. What happens
//     to the address in between is found out when it is opened for good.
//   - The admin address is open from the start and closed last. It makes two
//     scrapes at once, and refuses others and those that take half a minute.
//   - Unknown keys in --meshed-http2-client-params are warned about and skipped:
//     a Linkerd install must not fail here because of a setting that is newer
//     than this gateway. What is no JSON, or has a wrong type, is an error.
//   - Of lines with one message a logger writes a hundred at once and then one a
//     second, which says how many were dropped; each cluster's logger, and each
//     library's, has an allowance of its own. So neither a client nor a broken cluster floods the
//     log. Debug lines are not limited.
//   - GOGC is 200 where the environment has none: see memory.go. What it took to
//     read all clusters is given back to the system before proxies are served.
//   - Traces are a part of the gateway that ends last, with half a second for the
//     spans that are left. A collector that can't be used is logged, no more.
//   - The end comes in an order that takes nothing away from proxies: not ready,
//     and EndpointSlices left to another replica to write; a pause, streams sent
//     elsewhere while whoever comes is served, the listener closed, the streams that
//     are left ended, the clusters last. The default times, and a second for what
//     follows the last stream, are Kubernetes' default grace: see
//     docs/operations.md. A second signal ends the process at once.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package main
