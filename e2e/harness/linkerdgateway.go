package harness

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"time"
)

// LinkerdGateway plays a multicluster gateway of Linkerd, as far as it answers probes: an HTTP server that answers
// GET /ready. Its methods may be called concurrently.
type LinkerdGateway struct {
	code, asked atomic.Int64
	server      *httptest.Server
}

// StartLinkerdGateway starts a Gateway, which listens at this address until Close, and answers with this status.
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

// Close ends the server and all connections.
func (g *LinkerdGateway) Close() {
	g.server.CloseClientConnections()
	g.server.Close()
}

// Addr returns the address that it listens at.
func (g *LinkerdGateway) Addr() netip.AddrPort {
	return g.server.Listener.Addr().(*net.TCPAddr).AddrPort()
}

// Answer sets the status with which probes are answered from now on.
func (g *LinkerdGateway) Answer(code int) { g.code.Store(int64(code)) }

// Live makes it answer that it is alive, or not.
func (g *LinkerdGateway) Live(alive bool) {
	g.Answer(map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[alive])
}

// Alive reports whether it answers that it is alive.
func (g *LinkerdGateway) Alive() bool { return g.code.Load() == http.StatusOK }

// Asked returns how many requests there have been.
func (g *LinkerdGateway) Asked() int { return int(g.asked.Load()) }

// ServeHTTP refuses what no probe would send: its caller takes the answer for that of a dead gateway.
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
		if code >= 300 && code < 400 { // which probes must not follow
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(code)
	}
}
