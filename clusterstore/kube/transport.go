package kube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"isthmus/federation"
)

// API servers send the response header of a watch immediately, so headerTimeout also applies to
// watches.
const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 10 * time.Second
	pingAfter     = 5 * time.Second
	pingTimeout   = 3 * time.Second
)

// If a server closes each HTTP/2 connection with GOAWAY, net/http retries the request hundreds of
// times per second. If a server refuses every stream, net/http keeps retrying the request for a
// minute. A dial timeout does not prevent net/http from retrying a request. To prevent endless
// attempts, maxTries limits their number, and beginTimeout limits the time until the response
// begins.
const (
	maxTries     = 3
	beginTimeout = dialTimeout + dialTimeout + headerTimeout // maximum duration of one attempt
)

var (
	errTries = fmt.Errorf(
		"the API server closed the connection or refused the request %d times: check the proxy in front of it",
		maxTries,
	)
	errNoAnswer = fmt.Errorf("the API server did not begin to respond within %v", beginTimeout)
)

// maxWaiting is the maximum number of bytes of a response that are buffered before the caller reads
// them. By default, net/http buffers up to 4 MiB for each watch.
const maxWaiting = 512 << 10

const maxHeader = 256 << 10 // of a response, in bytes

// newRoundTripper returns a RoundTripper that sends requests with the configured credentials. The
// returned function closes all connections of the RoundTripper.
func newRoundTripper(name federation.ClusterName, cfg *rest.Config) (http.RoundTripper, func(), error) {
	transport, err := newTransport(name, cfg)
	if err != nil {
		return nil, nil, err
	}
	open, end := context.WithCancel(context.Background())
	transport.DialContext = closedWith(open, transport.DialContext)
	wrapped, err := rest.HTTPWrappersForConfig(cfg, &firstAlone{next: transport})
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("credentials: %w", err)
	}
	return wrapped, func() { transport.CloseIdleConnections(); end() }, nil
}

// newHTTPClient returns a client that does not follow redirects. API servers do not send redirects,
// and a linked cluster must not be able to redirect Isthmus's requests.
func newHTTPClient(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

func newTransport(name federation.ClusterName, cfg *rest.Config) (*http.Transport, error) {
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	t := &http.Transport{
		Proxy:                  cfg.Proxy,
		DialContext:            newDialer().DialContext,
		TLSClientConfig:        tls,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout:        90 * time.Second,
		DisableCompression:     cfg.DisableCompression,
		ForceAttemptHTTP2:      true,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:           pingAfter,
			PingTimeout:               pingTimeout,
			MaxReceiveBufferPerStream: maxWaiting,
		},
	}
	if dial := cfg.Dial; dial != nil {
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, stop := context.WithTimeout(ctx, dialTimeout)
			defer stop()
			return dial(ctx, network, address)
		}
	}
	// Only requests to the local cluster respect the proxy settings in environment variables.
	if t.Proxy == nil && name == federation.Local {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t, nil
}

// newDialer returns a dialer with TCP keep-alives. The keep-alives detect dead hosts even if a
// server does not support HTTP/2 pings.
func newDialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout, Count: 2},
	}
}

// withoutRetryAfter hides the Retry-After header from client-go. If client-go saw a Retry-After
// header, client-go would retry the request up to ten times, each time after the delay that the
// server requests. A long delay would cause the holder of a Lease to lose it.
type withoutRetryAfter struct{ next http.RoundTripper }

func (w withoutRetryAfter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(request)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// singleTry limits how often net/http retries a request, and how much of an error response is read.
// singleTry also removes Warning headers, because client-go would log them.
type singleTry struct{ next http.RoundTripper }

func (s singleTry) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	response, err := s.begin(request.WithContext(ctx), cancel)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	response.Header.Del("Warning")
	if err := boundBody(cancel, request, response); err != nil {
		response.Body.Close()
		cancel(nil)
		return nil, err
	}
	return response, nil
}

// begin sends a request and returns the response once its header has been received. After maxTries
// attempts without a response, or after beginTimeout, begin returns an error.
func (s singleTry) begin(request *http.Request, cancel context.CancelCauseFunc) (*http.Response, error) {
	var tries atomic.Int32
	counted := httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{GetConn: func(string) {
		if tries.Add(1) > maxTries {
			cancel(errTries)
		}
	}})
	late := time.AfterFunc(beginTimeout, func() { cancel(errNoAnswer) })
	response, err := s.next.RoundTrip(request.WithContext(counted))
	late.Stop()
	cause := context.Cause(counted)
	if cause != errTries && cause != errNoAnswer {
		return response, err
	}
	if err == nil {
		response.Body.Close()
	}
	return nil, cause
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// closedWith returns a dialFunc whose connections are closed when ctx is done. Closing only idle
// connections is not enough. A connection is not idle while it is being opened, or just after its
// request has been canceled.
func closedWith(ctx context.Context, dial dialFunc) dialFunc {
	return func(request context.Context, network, address string) (net.Conn, error) {
		made, err := dial(request, network, address)
		if err != nil {
			return nil, err
		}
		return connection{made, context.AfterFunc(ctx, func() { _ = made.Close() })}, nil
	}
}

// connection is a [net.Conn] that is closed when a context is done. The Close method unregisters
// the connection from the context.
type connection struct {
	net.Conn
	forget func() bool
}

func (c connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// firstAlone delays all later requests until the first request has a connection, or has failed to
// open a connection. Until net/http knows that a server supports HTTP/2, it opens one connection
// per request. Without firstAlone, a new link would open seven connections and later use only one
// of them.
type firstAlone struct {
	next http.RoundTripper

	mu    sync.Mutex
	first chan struct{} // closed once the first request has a connection or has failed; nil before the first request
}

func (f *firstAlone) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	first := f.first
	if first == nil {
		f.first = make(chan struct{})
	}
	f.mu.Unlock()
	if first == nil {
		return f.alone(r)
	}
	select {
	case <-first:
	case <-r.Context().Done(): // next returns the error
	}
	return f.next.RoundTrip(r)
}

// firstAlone.alone sends the first request. Other requests can use the connection once the headers
// of the first request have been written.
func (f *firstAlone) alone(r *http.Request) (*http.Response, error) {
	connected := sync.OnceFunc(func() { close(f.first) })
	defer connected()
	trace := &httptrace.ClientTrace{WroteHeaders: connected}
	return f.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// maxError limits the size of an error response's body, and errorTimeout limits the time to read
// it. API servers send errors of a few hundred bytes, and load balancers send pages of a few
// kilobytes.
const (
	maxError     = 64 << 10
	errorTimeout = 5 * time.Second // from the end of the header
)

// boundBody limits the size of an error response's body. The body of an error response is read
// immediately. A truncated body is acceptable, because the status code is enough to report the
// error. If the response is not an error, closing its body cancels the request.
func boundBody(cancel context.CancelCauseFunc, request *http.Request, response *http.Response) error {
	switch status := response.StatusCode; {
	case status == http.StatusSwitchingProtocols:
		// After a protocol switch, the body is the connection itself, which stays open even after
		// the context of the request is done.
		return fmt.Errorf(
			"API server %s switched protocols unexpectedly: "+
				"check that the kubeconfig's server URL points to an API server",
			request.URL.Host,
		)
	case status == http.StatusOK, status/100 == 2 && request.Method != http.MethodGet:
		response.Body = body{response.Body, cancel}
		return nil
	}
	// A blocked Read, including one that blocks during decompression, can be interrupted only by
	// canceling the context of the request.
	late := time.AfterFunc(errorTimeout, func() { cancel(nil) })
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxError))
	late.Stop()
	response.Body.Close()
	cancel(nil)
	response.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// body is a response body. Closing the body cancels the request.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
