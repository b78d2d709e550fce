package harness

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"time"
)

// LinkerdGateway is an HTTP server that responds to the probes for Linkerd's multicluster gateway,
// GET /ready. All methods are safe for concurrent use.
type LinkerdGateway struct {
	code, asked atomic.Int64
	server      *httptest.Server
}

// StartLinkerdGateway starts a LinkerdGateway that listens on addr until Close and responds to
// probes with the status code.
func StartLinkerdGateway(addr string, code int) (*LinkerdGateway, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	g := &LinkerdGateway{}
	g.Answer(code)
	g.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second}}
	g.server.Start()
	return g, nil
}

func (g *LinkerdGateway) Close() {
	g.server.CloseClientConnections()
	g.server.Close()
}

func (g *LinkerdGateway) Addr() netip.AddrPort {
	return g.server.Listener.Addr().(*net.TCPAddr).AddrPort()
}

// Answer sets the status code for future probes.
func (g *LinkerdGateway) Answer(code int) { g.code.Store(int64(code)) }

// Live lets probes succeed or fail from now on.
func (g *LinkerdGateway) Live(alive bool) {
	g.Answer(map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[alive])
}

// Alive reports whether probes currently succeed.
func (g *LinkerdGateway) Alive() bool { return g.code.Load() == http.StatusOK }

// Asked returns the number of requests so far.
func (g *LinkerdGateway) Asked() int { return int(g.asked.Load()) }

// ServeHTTP rejects requests that are not probes. The sender of such a request considers the
// gateway dead.
func (g *LinkerdGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.asked.Add(1)
	switch {
	case r.Method == http.MethodGet && r.URL.RequestURI() == "/elsewhere":
		w.WriteHeader(http.StatusOK)
	case r.Method != http.MethodGet || r.URL.RequestURI() != "/ready":
		w.WriteHeader(http.StatusNotFound)
	case r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" || r.ContentLength > 0:
		w.WriteHeader(http.StatusBadRequest)
	default:
		code := int(g.code.Load())
		if code >= 300 && code < 400 { // probes must not follow redirects
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(code)
	}
}
