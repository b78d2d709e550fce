package admin

import (
	"bytes"
	"embed"
	"net/http"
	"time"
)

//go:embed page
var files embed.FS

// policy is the Content-Security-Policy of all answers. frame-ancestors, base-uri and form-action
// have no default.
const policy = "default-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// newPage returns the handler of the page at /, for people, with its style and script under /page/: these are files,
// without a build. The script asks the lists of clusters, services, streams and events once a second while the page is
// visible, and /debug/explain for a service that a browser opens.
func newPage() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", file("index.html", "text/html; charset=utf-8"))
	mux.Handle("GET /page/style.css", file("style.css", "text/css; charset=utf-8"))
	mux.Handle("GET /page/icon.svg", file("icon.svg", "image/svg+xml"))
	mux.Handle("GET /page/main.js", file("main.js", "text/javascript; charset=utf-8"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// file returns a handler of an embedded file.
func file(name, kind string) http.Handler {
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is embedded, or the program is not built
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	})
}
