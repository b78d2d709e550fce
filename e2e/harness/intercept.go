package harness

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Intercept starts a server in front of another one, until the test ends: answer answers requests, or forwards them.
func Intercept(t testing.TB, target *url.URL, transport http.RoundTripper, answer func(w http.ResponseWriter, r *http.Request, forward http.HandlerFunc)) *httptest.Server {
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(w http.ResponseWriter, r *http.Request) {
			defer func() { _ = recover() }() // how a ReverseProxy ends an answer that breaks off
			proxy.ServeHTTP(w, r)
		})
	}))
	t.Cleanup(func() {
		server.Listener.Close()
		server.CloseClientConnections()
		server.Close()
		utilnet.CloseIdleConnectionsFor(transport)
	})
	return server
}
