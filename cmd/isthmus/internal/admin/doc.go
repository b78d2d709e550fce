// Package admin implements the HTTP server for the kubelet, Prometheus and people. The server
// serves /ping, /ready, /metrics, the debug API at /debug/, and a page at / that shows lists of the
// debug API.
//
//	sources := admin.Sources{Table: table, …}
//	s := admin.New(admin.Options{Ready: ready, Sources: sources, Metrics: registry, Log: log})
//	err := s.Serve(ctx, listener, grace)
//
// Callers may rely on the following:
//
//   - The server changes nothing. The server only answers GET and HEAD, except for the kubelet's
//     probes.
//   - Readers of a page share one cached response, and requests are limited by client address. At
//     most two scrapes run at a time, and each times out after half a minute. At most four pages of
//     the debug API and one explanation are computed at a time.
//   - Browsers can only use host names that no other site can have, which prevents DNS
//     rebinding.
//   - Responses contain only printable text of limited length, and no credentials, whatever
//     clusters and clients send.
//   - Every line of a list has a severity. By default, the most severe lines come first. All lines
//     are searched and sorted before the list is truncated to at most maxLines lines.
//   - An invalid query gets an error that names the valid values.
//   - The page loads nothing from other hosts, and its Content-Security-Policy permits nothing
//     else. The page has no inline script or style. The script inserts texts as text and never as
//     markup.
//   - The page requests and draws a list again only if the list has changed. The page
//     shows when the replica does not respond or returns an error.
//
// To add a path to the debug API:
//
//   - Define its type in internal/adminapi.
//   - Add a file with its handler.
//   - Add the path to newDebugAPI.
//
// See ARCHITECTURE.md at the root of the module for how the packages work together.
package admin
