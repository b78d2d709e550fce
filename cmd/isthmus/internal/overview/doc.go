// Package overview has the page about the gateway, for people: /, with its style and script under
// /page/. These are files (page/), without a build. The script asks the lists of clusters, services,
// streams and events once a second while the page is visible, and /debug/explain for a service that
// a browser opens.
//
//	page := overview.Handler()
//	mux.Handle("/{$}", page)
//	mux.Handle("/page/", page)
//
// Guarantees:
//
//   - It answers GET and HEAD only. The page fetches nothing from anywhere else, and its
//     Content-Security-Policy admits nothing else. It has no inline script or style.
//   - The script puts texts into the page as texts, never as markup.
//   - A list that has not changed is not sent again, nor drawn. That the gateway does not answer, or
//     what it answers otherwise than by lists, shows.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package overview
