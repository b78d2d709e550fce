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

// Timeouts of a connection or request. Together they make a server that does not respond an error
// within seconds. The server may be unreachable (dial), accept connections but send nothing (TLS
// handshake, response header), or disappear later (pings). API servers send the header of a watch
// at once, so headerTimeout also applies to watches.
const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 10 * time.Second
	pingAfter     = 5 * time.Second
	pingTimeout   = 3 * time.Second
)

// If a server closes each HTTP/2 connection by GOAWAY, net/http repeats the request hundreds of
// times a second. If the server refuses each stream, net/http repeats the request for a minute. The
// timeouts above do not stop that. These limits therefore apply to everything before the response.
const (
	maxTries     = 3
	beginTimeout = dialTimeout + dialTimeout + headerTimeout // as long as one try may take
)

// Errors of requests without a response.
var (
	errTries = fmt.Errorf(
		"the API server closed the connection or refused the request %d times: check what is in front of it", maxTries,
	)
	errNoAnswer = fmt.Errorf("the API server did not begin to answer within %v", beginTimeout)
)

// maxWaiting is the maximum number of unread bytes of a response that are buffered. The default of
// net/http is 4 MiB for each watch.
const maxWaiting = 512 << 10

// maxHeader is the maximum size of a response header, in bytes.
const maxHeader = 256 << 10

// newRoundTripper returns a RoundTripper that sends requests with the client's credentials, and a
// function that closes its connections.
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

// newHTTPClient returns a client that does not follow redirects. API servers don't redirect, and a
// linked cluster must not redirect Isthmus's requests.
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
	// Only the local cluster may use the environment's proxy. A linked cluster is reached directly
	// at its kubeconfig's server.
	if t.Proxy == nil && name == federation.Local {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t, nil
}

// newDialer returns a dialer with TCP keep-alives, which detect a dead host if the server does not
// support HTTP/2.
func newDialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout, Count: 2},
	}
}

// withoutRetryAfter hides Retry-After from client-go, which would otherwise retry a request up to
// ten times, with the pauses that the server requests. Writers decide when to retry. The holder of
// a Lease would lose it by waiting.
type withoutRetryAfter struct{ next http.RoundTripper }

func (w withoutRetryAfter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(request)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// singleTry limits how often net/http retries a request. singleTry also removes warnings, which
// client-go would log, and limits the bodies of errors.
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

// begin sends a request and returns the response when its header has been received. If one of the
// limits is reached, begin returns an error. cancel cancels the request's context.
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

// dialFunc connects, as [net.Dialer.DialContext] does.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// closedWith returns a dialFunc whose connections are closed when ctx ends. net/http only closes
// idle connections. A connection whose last request was just canceled is not idle yet. A connection
// that is still being made for a canceled request becomes idle later. Both would stay open for
// IdleConnTimeout.
func closedWith(ctx context.Context, dial dialFunc) dialFunc {
	return func(request context.Context, network, address string) (net.Conn, error) {
		made, err := dial(request, network, address)
		if err != nil {
			return nil, err
		}
		return connection{made, context.AfterFunc(ctx, func() { _ = made.Close() })}, nil
	}
}

// connection removes its callback from the context when it is closed.
type connection struct {
	net.Conn
	forget func() bool
}

func (c connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// firstAlone delays all requests until the first request has a connection. Before net/http knows
// that a server supports HTTP/2, it opens a connection for each request, although all requests fit
// on one. A new link would open seven connections and then use one of them.
//
// If the first request gets no connection, the waiting requests continue independently.
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

// alone sends the first request. Once its headers are written, other requests can use the
// connection.
func (f *firstAlone) alone(r *http.Request) (*http.Response, error) {
	connected := sync.OnceFunc(func() { close(f.first) })
	defer connected()
	trace := &httptrace.ClientTrace{WroteHeaders: connected}
	return f.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// Limits of the body of an error. API servers send a few hundred bytes, and load balancers send
// pages of some kilobytes. The readers of other bodies limit them: package decode, and package
// guard for [Client.AddTyped].
const (
	maxError     = 64 << 10
	errorTimeout = 5 * time.Second // from the end of the header on
)

// boundBody reads the body of an error. A truncated body is good enough, because the status is the
// error. cancel cancels the request's context. For other responses, boundBody makes closing the
// body call cancel.
func boundBody(cancel context.CancelCauseFunc, request *http.Request, response *http.Response) error {
	switch status := response.StatusCode; {
	case status == http.StatusSwitchingProtocols:
		// After this status, the body is the connection itself, which does not end with the
		// request's context.
		return fmt.Errorf(
			"API server %s switched protocols, which was not requested: check that the kubeconfig's server is an "+
				"API server",
			request.URL.Host,
		)
	case status == http.StatusOK, status/100 == 2 && request.Method != http.MethodGet:
		response.Body = body{response.Body, cancel}
		return nil
	}
	// Only the request's context ends a blocked Read, whether it waits for the connection or within
	// the decompression.
	late := time.AfterFunc(errorTimeout, func() { cancel(nil) })
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxError))
	late.Stop()
	response.Body.Close()
	cancel(nil)
	response.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// body cancels its request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
