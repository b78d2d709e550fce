package overview

import (
	"bytes"
	"embed"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

//go:embed page
var files embed.FS

// policy is the Content-Security-Policy of all answers. frame-ancestors, base-uri and form-action
// have no default.
const policy = "default-src 'self'; object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

const (
	// MaxViewers is how many are served live at a time.
	MaxViewers = 20

	lookEvery = time.Second      // at most
	restFor   = 20               // times as long as the last look has taken
	take      = 10 * time.Second // in which a viewer has to take what it is sent
	tickEvery = 15 * time.Second // a viewer gets something at least that often, so that it sees a lost connection
)

// Options are a Page's.
type Options struct {
	// Look returns the gateway as it is now. It is not called again before it has returned. The
	// World is the Page's.
	Look func() *World
}

// Page is the page's handler.
type Page struct {
	look  func() *World
	mux   *http.ServeMux
	slots chan struct{} // has a value for each viewer that is served live
	ended chan struct{} // closed by End
	end   func()

	looking  chan struct{} // has a value while somebody has the fields below; a look may take long
	newest   *World        // nil: none, or too old
	lookedAt time.Time
	rest     time.Duration // until the gateway may be looked at again
	forget   *time.Timer   // drops newest once nobody looks
}

// New returns the page's handler, for / and what is under /page/.
func New(o Options) *Page {
	p := &Page{look: o.Look, mux: http.NewServeMux(), slots: make(chan struct{}, MaxViewers), ended: make(chan struct{}), looking: make(chan struct{}, 1)}
	p.end = sync.OnceFunc(func() { close(p.ended) })
	p.mux.Handle("/{$}", p.file("page/index.html", "text/html; charset=utf-8"))
	p.mux.Handle("/page/style.css", p.file("page/style.css", "text/css; charset=utf-8"))
	p.mux.Handle("/page/icon.svg", p.file("page/icon.svg", "image/svg+xml"))
	for _, script := range []string{"main.js", "tables.js", "explain.js", "show.js"} {
		p.mux.Handle("/page/"+script, p.file("page/"+script, "text/javascript; charset=utf-8"))
	}
	p.mux.HandleFunc("/page/data", p.serveData)
	p.mux.HandleFunc("/page/live", p.serveLive)
	return p
}

// End ends the answers to all live viewers, and to those that come later.
func (p *Page) End() { p.end() }

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		h.Set("Connection", "close") // there may be a body, which nobody reads
		http.Error(w, "the page changes nothing: GET and HEAD only", http.StatusMethodNotAllowed)
		return
	}
	p.mux.ServeHTTP(w, r)
}

// file returns a handler of an embedded file.
func (p *Page) file(name, kind string) http.Handler {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded, or the program is not built
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		http.ServeContent(takenInTime(w), r, "", time.Time{}, bytes.NewReader(text))
	})
}

// fromElsewhere reports whether another site's page has asked, as far as the browser says, and
// answers it then.
func fromElsewhere(w http.ResponseWriter, r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	http.Error(w, "only the gateway's own page gets this", http.StatusForbidden)
	return true
}

// serveData answers with everything that a viewer wants to see.
func (p *Page) serveData(w http.ResponseWriter, r *http.Request) {
	if fromElsewhere(w, r) {
		return
	}
	sections := p.world().sections(parseQuery(r.URL.Query()))
	sections["now"] = time.Now()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(takenInTime(w)).Encode(sections) // no section has a value that can't be encoded; the client may have gone
}

// takenInTime gives the client take for the whole answer.
func takenInTime(w http.ResponseWriter) http.ResponseWriter {
	// It fails only if the writer is no connection's, as in tests: then there is nothing to wait for.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(take))
	return w
}

// world returns the gateway as it was a moment ago. Callers share it.
func (p *Page) world() *World {
	p.looking <- struct{}{}
	defer func() { <-p.looking }()
	if p.newest != nil && time.Since(p.lookedAt) < p.rest {
		return p.newest
	}
	began := time.Now()
	p.newest = p.look()
	p.lookedAt = time.Now()
	p.rest = max(lookEvery, restFor*p.lookedAt.Sub(began))
	if p.forget != nil {
		p.forget.Stop()
	}
	p.forget = time.AfterFunc(2*p.rest, p.drop)
	return p.newest
}

// drop frees the memory of what nobody looks at any more.
func (p *Page) drop() {
	p.looking <- struct{}{}
	defer func() { <-p.looking }()
	if time.Since(p.lookedAt) >= 2*p.rest {
		p.newest = nil
	}
}
