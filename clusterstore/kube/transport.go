package kube

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"isthmus/federation"
)

// Limits of one connection or request. Together they turn every way that an API
// server can be away into an error within some seconds: not there (dial), accepts
// and is silent (TLS handshake, response header), or went away without a word
// (pings). API servers send the header of a watch at once, so that the
// limit holds for watches too.
const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 10 * time.Second
	pingAfter     = 5 * time.Second
	pingTimeout   = 3 * time.Second
)

// maxAnswer bounds an answer that is read as a whole: a page of a list. Watches
// come event by event.
const maxAnswer = 256 << 20

// newHTTPClient returns a client, and what lets go of its idle connections.
func newHTTPClient(name federation.ClusterName, cfg *rest.Config) (*http.Client, func(), error) {
	transport, err := newTransport(name, cfg)
	if err != nil {
		return nil, nil, err
	}
	wrapped, err := rest.HTTPWrappersForConfig(cfg, transport)
	if err != nil {
		return nil, nil, fmt.Errorf("credentials: %w", err)
	}
	// API servers don't redirect, and the one of a link must not send the
	// gateway's requests elsewhere.
	return &http.Client{Transport: once{wrapped}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}, transport.CloseIdleConnections, nil
}

func newTransport(name federation.ClusterName, cfg *rest.Config) (*http.Transport, error) {
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	t := &http.Transport{
		Proxy:                 cfg.Proxy,
		DialContext:           newDialer().DialContext,
		TLSClientConfig:       tls,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: headerTimeout,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    cfg.DisableCompression,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	if dial := cfg.Dial; dial != nil {
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, stop := context.WithTimeout(ctx, dialTimeout)
			defer stop()
			return dial(ctx, network, address)
		}
	}
	// The gateway's environment speaks for the cluster that it runs in. A link
	// is reached as its kubeconfig says, and by no detour.
	if t.Proxy == nil && name == federation.Local {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t, nil
}

// newDialer finds out by itself, for servers without HTTP/2, that a host is gone.
func newDialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout, Count: 2},
	}
}

// once keeps client-go from trying a request again by itself, up to ten times
// and for as long as the server likes. Whether and when to try again is for the
// resource to decide, and for the health to know. Nor does it say in the log what
// a server likes to warn of.
type once struct{ next http.RoundTripper }

func (o once) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if err != nil {
		return nil, failure{err}
	}
	response.Header.Del("Retry-After")
	response.Header.Del("Warning")
	if watching := request.URL.Query().Get("watch"); watching == "" || watching == "false" {
		response.Body = &bounded{ReadCloser: response.Body, left: maxAnswer}
	}
	return response, nil
}

// bounded is a body that fails beyond a size, where client-go would read on until
// there is no memory left.
type bounded struct {
	io.ReadCloser
	left int64
}

var errTooLarge = fmt.Errorf("the API server's answer is larger than %d MiB", maxAnswer>>20)

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// failure wraps an error so that client-go sees one. It takes timeouts, and
// errors with certain texts, for the end of a watch that went well: a cluster
// whose connections are all reset would pass for one where nothing happens.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func (f failure) Error() string { return reworded.Replace(f.error.Error()) }

var reworded = strings.NewReplacer(
	"connection reset by peer", "connection was reset by peer",
	"use of closed network connection", "use of a closed network connection",
	"http2: server sent GOAWAY and closed the connection", "the server closed the HTTP/2 connection (GOAWAY)",
	"can't write HTTP request on broken connection", "can't write the HTTP request on a broken connection",
)
