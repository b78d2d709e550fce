package admin

import (
	"bytes"
	"embed"
	"net/http"
	"time"
)

//go:embed page
var files embed.FS

// policy is the Content-Security-Policy of all responses. The directives frame-ancestors, base-uri
// and form-action are necessary because default-src does not cover them.
const policy = "default-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// newPage returns the handler for the web page at /, and for its style sheet, icon and script under
// /page/. While the web page is visible, its script requests the lists of clusters, services,
// streams and events once a second. When a user opens a service, the script requests
// /debug/explain.
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

func file(name, kind string) http.Handler {
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // impossible, because the file is embedded
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	})
}
