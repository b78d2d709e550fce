package admin

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func TestAnswers(t *testing.T) {
	page := newPage()
	for _, c := range []struct {
		method, path string
		code         int
		kind, body   string
	}{
		{method: "GET", path: "/", code: 200, kind: "text/html; charset=utf-8", body: "<h1>"},
		{method: "GET", path: "/?services.q=web", code: 200, kind: "text/html; charset=utf-8", body: "<h1>"},
		{method: "HEAD", path: "/", code: 200, kind: "text/html; charset=utf-8"},
		{method: "GET", path: "/page/style.css", code: 200, kind: "text/css; charset=utf-8", body: "--focus"},
		{
			method: "GET",
			path:   "/page/main.js",
			code:   200,
			kind:   "text/javascript; charset=utf-8",
			body:   "visibilitychange",
		},
		{method: "GET", path: "/page/icon.svg", code: 200, kind: "image/svg+xml", body: "<svg"},
		{method: "GET", path: "/page/", code: 404},
		{method: "GET", path: "/page/index.html", code: 404},
		{method: "GET", path: "/page/live", code: 404},
		{method: "POST", path: "/", code: 405},
		{method: "PUT", path: "/page/main.js", code: 405},
		{method: "OPTIONS", path: "/page/main.js", code: 405},
	} {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != c.code || c.kind != "" && w.Header().Get("Content-Type") != c.kind ||
			!strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%+v: %d %v %.200s", c, w.Code, w.Header(), w.Body)
		}
		h := w.Header()
		if !strings.HasPrefix(
			h.Get("Content-Security-Policy"), "default-src 'self'; ",
		) || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") ||
			h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Referrer-Policy") != "no-referrer" ||
			h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: headers %v", c.method, c.path, h)
		}
		if c.code == 405 && h.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: allows %q", c.method, c.path, h.Get("Allow"))
		}
	}
}

// TestFiles checks that the page never uses a text as markup. The page has no inline script, and
// loads nothing from other hosts.
func TestFiles(t *testing.T) {
	entries, err := files.ReadDir("page")
	if err != nil || len(entries) != 4 {
		t.Fatalf("%v: %d files", err, len(entries))
	}
	forbidden := regexp.MustCompile(
		`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new ` +
			`Function|DOMParser|createContextualFragment|setHTML|\bstyle=|<style|<script>| ` +
			`on[a-z]+=|localStorage|document\.cookie`,
	)
	elsewhere := regexp.MustCompile(`(https?:)?//[a-z][a-z0-9.]+`)
	for _, e := range entries {
		text, err := files.ReadFile("page/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if m := forbidden.Find(text); m != nil {
			t.Errorf("%s contains %s", e.Name(), m)
		}
		for _, m := range elsewhere.FindAll(text, -1) {
			if string(m) != "http://www.w3.org" { // the name of an XML namespace, which is never loaded
				t.Errorf("%s contains %s", e.Name(), m)
			}
		}
	}
}
