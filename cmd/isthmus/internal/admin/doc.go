// Package admin is the HTTP server for kubelet, Prometheus and people: /ping, /ready, /metrics, the debug API below
// /debug/, and the page at / (page/), which shows lists of the debug API.
//
//	s := admin.New(admin.Options{Ready: ready, Sources: admin.Sources{Table: table, …}, Metrics: registry, Log: log})
//	err := s.Serve(ctx, listener, grace)
//
// server.go has the server, and debug.go the paths of the debug API and what it reads (Sources). Each path has a file
// with its handler, its query parameters and its list: clusters.go (and leftovers.go), services.go, streams.go,
// events.go, explain.go, impact.go and exports.go. lists.go searches, sorts and cuts lists.
//
// Guarantees:
//
//   - It changes nothing. Except for kubelet's probes, it answers GET and HEAD only.
//   - Readers of an answer share it (answer.go), and clients take turns by their addresses
//     (limiter.go): two scrapes at a time, which end after half a minute, four answers of the debug API, one
//     explanation.
//   - Browsers reach it by names that no other site can have (hosts.go).
//   - Whatever clusters and clients send, answers have printable text of bounded length, and no credentials.
//   - A line of a list has a severity, and the worst lines are first unless another order is asked for. All lines are
//     searched and sorted before an answer is cut, which has maxLines lines at most. A query that can't be answered is
//     an error that names what can.
//   - The page fetches nothing from anywhere else, and its Content-Security-Policy admits nothing else. It has no
//     inline script or style. Its script puts texts into the page as texts, never as markup.
//   - A list that has not changed is not sent again, nor drawn. That the replica does not answer, or
//     what it answers otherwise than by lists, shows.
//
// To add a path of the debug API: its type in internal/adminapi, a file with its handler, and a line in newDebugAPI.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package admin
