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

// Timeouts of a connection or request. Together they make a server that does not
// answer an error within seconds: it can't be reached (dial), accepts connections and
// sends nothing (TLS handshake, response header), or disappears later (pings). API
// servers send the header of a watch at once, so headerTimeout is for watches too.
const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 10 * time.Second
	pingAfter     = 5 * time.Second
	pingTimeout   = 3 * time.Second
)

// net/http sends a request again for as long as a server closes each HTTP/2 connection
// by GOAWAY, hundreds of times a second, and for a minute if it refuses each stream. No
// time-out above ends that, so there is a limit for all that precedes an answer.
const (
	maxTries     = 3
	beginTimeout = dialTimeout + dialTimeout + headerTimeout // as one try may take
)

// Errors of requests without an answer.
var (
	errTries = fmt.Errorf(
		"the API server closed the connection or refused the request %d times: check what is in front of it", maxTries,
	)
	errNoAnswer = fmt.Errorf("the API server did not begin to answer within %v", beginTimeout)
)

// maxWaiting is how much of an answer may have come and wait to be read, in bytes. net/http's own
// figure is 4 MiB, for each watch.
const maxWaiting = 512 << 10

// maxHeader is the largest header of an answer that is read, in bytes.
const maxHeader = 256 << 10

// newRoundTripper returns what sends requests with the client's credentials, and a function that
// closes its connections.
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

// newHTTPClient returns a client that follows no redirects: API servers don't redirect, and a
// linked cluster must not send the gateway's requests elsewhere.
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
	// The environment's proxy is for the cluster that the gateway runs in. A linked
	// cluster is reached directly at its kubeconfig's server.
	if t.Proxy == nil && name == federation.Local {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t, nil
}

// newDialer has TCP keep-alives, which notice that a host is gone if the server has no
// HTTP/2.
func newDialer() *net.Dialer {
	return &net.Dialer{
		Timeout:         dialTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: pingAfter, Interval: pingTimeout, Count: 2},
	}
}

// withoutRetryAfter hides Retry-After from client-go, which would retry a request by itself, up to
// ten times and for as long as the server asks for. Writers decide when to retry, and a Lease is
// lost if its holder waits.
type withoutRetryAfter struct{ next http.RoundTripper }

func (w withoutRetryAfter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(request)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// singleTry bounds how often net/http retries a request by itself. It also drops warnings, which
// client-go would log, and bounds the bodies of errors.
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

// begin sends a request and returns when the header of the answer has come, or when one
// of the limits is reached. cancel ends the request's ctx.
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

// closedWith returns dial, whose connections are closed when ctx ends. net/http closes those that are idle. One whose
// last request has just been cancelled is not idle yet, and one that is still being made for such a
// request becomes idle later: they would stay open for IdleConnTimeout.
func closedWith(ctx context.Context, dial dialFunc) dialFunc {
	return func(request context.Context, network, address string) (net.Conn, error) {
		made, err := dial(request, network, address)
		if err != nil {
			return nil, err
		}
		return connection{made, context.AfterFunc(ctx, func() { _ = made.Close() })}, nil
	}
}

// connection is one that the context forgets once it is closed.
type connection struct {
	net.Conn
	forget func() bool
}

func (c connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// firstAlone lets the first request get a connection before it sends others. net/http opens a
// connection for each request that comes before it knows that the server has HTTP/2, on which all have
// room: a cluster would be connected to seven times over when it is linked, to use one of these.
//
// If the first gets no connection, those that wait go on, each for itself.
type firstAlone struct {
	next http.RoundTripper

	mu    sync.Mutex
	first chan struct{} // closed once the first has a connection, or has failed; nil: none has come
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

// alone sends the first request. What is written is written to a connection that others can use.
func (f *firstAlone) alone(r *http.Request) (*http.Response, error) {
	connected := sync.OnceFunc(func() { close(f.first) })
	defer connected()
	trace := &httptrace.ClientTrace{WroteHeaders: connected}
	return f.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// Limits of the body of an error: an API server's have a few hundred bytes, a load balancer's page some kilobytes.
// Other bodies are for their readers to bound: package decode, guard ([Client.AddTyped]).
const (
	maxError     = 64 << 10
	errorTimeout = 5 * time.Second // from the end of the header on
)

// boundBody reads the body of an error, of which what has come is enough: the status is the error, and the text is only
// shorter. cancel ends the request's ctx; for other answers it is called once the body is closed.
func boundBody(cancel context.CancelCauseFunc, request *http.Request, response *http.Response) error {
	switch status := response.StatusCode; {
	case status == http.StatusSwitchingProtocols:
		// What comes after this status is the connection itself, which does not end
		// with the request's context.
		return fmt.Errorf(
			"API server %s switched protocols, which was not requested: check that the kubeconfig's server is an "+
				"API server",
			request.URL.Host,
		)
	case status == http.StatusOK, status/100 == 2 && request.Method != http.MethodGet:
		response.Body = body{response.Body, cancel}
		return nil
	}
	// Nothing but the context of its request ends a Read that waits, for the connection or within the decompression.
	late := time.AfterFunc(errorTimeout, func() { cancel(nil) })
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxError))
	late.Stop()
	response.Body.Close()
	cancel(nil)
	response.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// body is one that ends its request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
