package reach

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"isthmus/internal/guard"
	"isthmus/internal/text"
)

const (
	// maxFailure is the maximum length of the kubelet's message about a port, in bytes. Longer
	// messages are truncated.
	maxFailure = 1 << 10
	// maxReasonWait limits how long Isthmus waits for the kubelet's message after a connection has
	// been reset.
	maxReasonWait = time.Second
)

// forwarder forwards connections from a free port on 127.0.0.1 to a port of a Pod. A forwarder
// stops when the Cluster is closed or the connection to the API server is lost. Client-go's port
// forwarding uses a forwarder both as a dialer and as a connection.
type forwarder struct {
	httpstream.Connection                 // valid once ports.Ready is closed
	dialing               context.Context // limits Dial
	pod                   Replica
	port                  int
	ports                 *portforward.PortForwarder
	ended                 chan struct{}
	err                   error // the reason why there is no Connection; valid once ended is closed

	mu      sync.Mutex
	failure string        // the kubelet's message about the port
	failed  chan struct{} // closed once failure is not empty
}

// newForwarder returns a forwarder that starts connecting to the API server in the background.
func newForwarder(ctx context.Context, pod Replica, port int) (*forwarder, error) {
	f := &forwarder{dialing: ctx, pod: pod, port: port, ended: make(chan struct{}), failed: make(chan struct{})}
	// Client-go's logs are discarded, because f.explain returns the same errors.
	lifetime := klog.NewContext(pod.cluster.lifetime, klog.Logger{})
	var err error
	f.ports, err = portforward.NewOnAddressesForStreamingWithContext(lifetime, f, []string{"127.0.0.1"},
		[]string{fmt.Sprint("0:", port)}, make(chan struct{}), nil, nil)
	if err != nil {
		return nil, f.broken("cannot be forwarded", err.Error(), "")
	}
	go func() {
		defer close(f.ended)
		if err := f.ports.ForwardPorts(); err != nil && f.err == nil {
			f.err = f.broken("cannot be forwarded", err.Error(), "")
		}
	}()
	return f, nil
}

// Dial connects to the API server as kubectl does: over a WebSocket or, if the server refuses
// WebSockets, over SPDY. If both attempts to connect fail, f.err is the first error that contains a
// Status from the API server. If neither error contains a Status, f.err is the error of the second
// attempt.
func (f *forwarder) Dial(protocols ...string) (_ httpstream.Connection, protocol string, err error) {
	defer func() {
		switch {
		case err == nil:
			f.err = nil
		case f.err == nil:
			f.err = &httpstream.UpgradeFailureError{Cause: err}
		}
	}()
	config := rest.CopyConfig(f.pod.cluster.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return attempt{f, next} })
	to := f.pod.cluster.API.CoreV1Interface.RESTClient().Post().
		Resource("pods").Namespace(f.pod.Namespace).Name(f.pod.Name).SubResource("portforward").URL()

	overWebSocket, err := portforward.NewSPDYOverWebsocketDialerForStreamingWithLogger(klog.Logger{}, to, config)
	if err != nil {
		return nil, "", err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, "", err
	}
	overSPDY := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, to)
	both := portforward.NewFallbackDialerForStreaming(overWebSocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	f.Connection, protocol, err = both.Dial(protocols...)
	return f, protocol, err
}

// attempt is a RoundTripper that adds the forwarder's dialing context to each request, and records
// the error of a failed request. Client-go's dialers do not accept a context, and the SPDY dialer
// returns errors only as text.
type attempt struct {
	by   *forwarder
	next http.RoundTripper
}

func (a attempt) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := a.by.dialing
	response, err := a.next.RoundTrip(request.WithContext(ctx))
	if _, limited := ctx.Deadline(); limited && errors.Is(err, os.ErrDeadlineExceeded) {
		<-ctx.Done() // the connection has the same deadline, which may expire first
		err = ctx.Err()
	}
	failed := err
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols {
		failed = refusal(response)
	}
	if statusOf(a.by.err) == nil {
		a.by.err = failed
	}
	return response, err
}

// The refusal function returns the reason why a server refused to upgrade a connection. The error
// is a StatusError if the server is an API server, and an UpgradeFailureError otherwise.
func refusal(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, guard.MaxError)) // a part of the text is enough
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Kind == "Status" {
		status.Code = int32(response.StatusCode)
		return &apierrors.StatusError{ErrStatus: status}
	}
	return &httpstream.UpgradeFailureError{Cause: fmt.Errorf("%s %s", response.Status, bytes.TrimSpace(text))}
}

// statusOf returns the Status from an API server that refused to upgrade a connection. If err does
// not contain a Status, the result is nil.
func statusOf(err error) (status *apierrors.StatusError) {
	if failure, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		err = failure.Cause
	}
	errors.As(err, &status)
	return status
}

// CreateStream opens a stream. CreateStream wraps error streams, on which a kubelet reports why it
// cannot reach a port. Client-go only logs that message.
func (f *forwarder) CreateStream(headers http.Header) (httpstream.Stream, error) {
	stream, err := f.Connection.CreateStream(headers)
	if err == nil && headers.Get(v1.StreamType) == v1.StreamTypeError {
		stream = errorStream{stream, f}
	}
	return stream, err
}

type errorStream struct {
	httpstream.Stream
	of *forwarder
}

func (s errorStream) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b[:min(len(b), maxFailure)])
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if n > 0 && s.of.failure == "" {
		close(s.of.failed)
	}
	s.of.failure += string(b[:n])
	if len(s.of.failure) >= maxFailure {
		err = io.EOF
	}
	return n, err
}

// The over method reports whether new connections need a new forwarder.
func (f *forwarder) over() bool {
	select {
	case <-f.ended:
		return true
	case <-f.ports.Ready:
		return f.explain(nil) != nil
	default:
		return f.dialing.Err() != nil // the SPDY dialer waits for a response without a limit
	}
}

// awaitReason waits for the reason why a connection was reset. Client-go may close the connection
// before the kubelet's message has arrived. If err does not report a connection reset, awaitReason
// returns immediately.
func (f *forwarder) awaitReason(err error) {
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return
	}
	timeout := time.NewTimer(maxReasonWait)
	defer timeout.Stop()
	select {
	case <-f.failed:
	case <-f.CloseChan():
	case <-timeout.C:
	}
}

// The explain method returns a [BrokenError] with the reason why a connection failed. If the
// forwarder still works, explain returns err unchanged.
func (f *forwarder) explain(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != "" {
		return f.broken("cannot be reached", f.failure, "\n  Check that the replica listens on this port. "+
			"If the replica's ports differ from the defaults, "+
			"its container must declare ports named admin and grpc")
	}
	select {
	case <-f.CloseChan():
		return &BrokenError{fmt.Sprintf("the connection to Pod %s through the API server was lost", f.pod)}
	default:
		return err
	}
}

func (f *forwarder) broken(what, why, hint string) error {
	return &BrokenError{fmt.Sprintf("port %d of Pod %s %s: %s%s", f.port, f.pod, what, text.Quoted(why), hint)}
}

// BrokenError reports why a connection to a Pod failed. The text does not contain control
// characters.
type BrokenError struct{ text string }

func (e *BrokenError) Error() string { return e.text }

// Conn is a connection to a port of a Pod.
type Conn struct {
	net.Conn // to the forwarder
	by       *forwarder
}

func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.by.awaitReason(err)
		err = c.by.explain(err)
	}
	return n, err
}

func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.by.awaitReason(err)
		err = c.by.explain(err)
	}
	return n, err
}
