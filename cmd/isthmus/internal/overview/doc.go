// Package overview serves a page about the gateway, for people: /, with its style and script
// under /page/, the same as JSON at /page/data, and changes as server-sent events at /page/live.
//
//	page := overview.New(overview.Options{Look: look})
//	mux.Handle("/{$}", page)
//	mux.Handle("/page/", page)
//	server.RegisterOnShutdown(page.End)
//
// Guarantees:
//
//   - It answers GET and HEAD only, and changes nothing. The page fetches nothing from anywhere
//     else, and its Content-Security-Policy admits nothing else. It has no inline script or
//     style. Other sites' pages get no data (Sec-Fetch-Site).
//   - The script puts texts into the page as texts, never as markup. Texts are printable and
//     shortened.
//   - The gateway is looked at once a second at most, whatever the number of viewers, and only
//     while somebody looks. What takes long is done less often: it takes no more than
//     a twentieth of a core.
//   - Tables have [Rows] rows at most: filters, sorts and pages are made here.
//   - At most [MaxViewers] are served live; more get 503 Service Unavailable with Retry-After, and
//     the page then asks for data now and then. A viewer gets what has changed, nothing if nothing
//     has, and is dropped if it does not take it within [take].
//   - End ends all live answers, for a server that shuts down.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package overview
