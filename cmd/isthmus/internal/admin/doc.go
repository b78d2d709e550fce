// Package admin implements the HTTP server for the kubelet, Prometheus and users. The server serves
// /ping, /ready, /metrics, the debug API under /debug/, and a web page at / that shows lists from
// the debug API.
//
//	sources := admin.Sources{Table: table, …}
//	s := admin.New(admin.Options{Ready: ready, Sources: sources, Metrics: registry, Log: log})
//	err := s.Serve(ctx, listener, grace)
//
// Callers may rely on the following:
//
//   - No request changes a cluster or the configuration of the replica. The paths for the kubelet's
//     probes accept any HTTP method. All other paths accept only GET and HEAD, except that
//     /debug/pprof/symbol also accepts POST.
//   - For every page of the debug API except /debug/explain and /debug/impact, the server caches
//     the data and shares the cached data among all clients.
//   - The server limits the number of concurrent requests from each client address to the debug API
//     and to /metrics. At most two scrapes run at a time, and each scrape times out after half a
//     minute. At most four pages of the debug API and one explanation are computed at a time.
//   - To prevent DNS rebinding, the server rejects requests for host names that another site could
//     own.
//   - Responses contain only printable text of limited length, even if clusters or clients send
//     other text. Responses never contain credentials.
//   - Every row of a list has a severity. By default, lists are sorted by descending severity. The
//     server searches and sorts all rows before it truncates a list to at most maxLines rows.
//   - The response to an invalid query is an error that lists the valid values.
//   - The Content-Security-Policy of the web page prevents loading resources from other hosts. The
//     web page has no inline script or style. The script inserts strings as text, and never as
//     markup.
//   - The web page reloads a list only if the list has changed. If the replica does not respond or
//     returns an error, the web page shows a message.
//
// To add a path to the debug API:
//
//   - Define the type of the response in internal/adminapi.
//   - Add a file with the handler.
//   - Add the path to newDebugAPI.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package admin
