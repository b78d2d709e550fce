package reach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"isthmus/clusterstore/guard"
	"isthmus/internal/legible"
)

// What is asked for: the streams of forwarded ports, over SPDY, which is tunnelled through a websocket where that can be.
const (
	protocol  = "portforward.k8s.io"
	tunnelled = "SPDY/3.1+" + protocol
)

// pings keep load balancers from ending a connection on which nothing happens.
const pings = 10 * time.Second

// Dial connects to a port of the Pod, or to the Address. The context is that of the dialling only. A program that gets credentials
// may keep it for longer than that. An error of a connection to a Pod's port that has failed is a [BrokenError].
func (g Gateway) Dial(ctx context.Context, port int) (net.Conn, error) {
	if g.Address != "" {
		return new(net.Dialer).DialContext(ctx, "tcp", g.Address)
	}
	tunnel, err := g.cluster.tunnel(ctx, g.cluster.API.CoreV1Interface.RESTClient().Post().
		Resource("pods").Namespace(g.Namespace).Name(g.Name).SubResource("portforward").URL().String())
	if err != nil {
		return nil, g.explain(err)
	}
	connection, err := spdy.NewClientConnectionWithPings(tunnel, pings)
	if err != nil {
		return nil, g.explain(err)
	}
	stop := context.AfterFunc(ctx, func() { connection.Close() })
	defer stop()
	conn, err := newConn(tunnel, connection, g, port)
	if err != nil {
		connection.Close()
		if _, ok := errors.AsType[*BrokenError](err); ok {
			return nil, err
		}
		return nil, fmt.Errorf("the connection to Pod %s can't be used: %s", g, legible.Quoted(err.Error()))
	}
	return conn, nil
}

// explain returns an error for a connection that is not made.
func (g Gateway) explain(err error) error {
	if text, ok := errors.AsType[notUpgradedError](err); ok {
		return fmt.Errorf("%s can't connect to Pod %s: %s\n  Is there something between here and the API server that passes neither websockets nor SPDY?", g.cluster, g, legible.Quoted(string(text)))
	}
	status, answered := errors.AsType[*apierrors.StatusError](err)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the Pod %s is gone\n  Ask again: another may have taken its place", g)
	case answered && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s can't connect to Pod %s: %s\n  It does so through the kubelet of the Pod's node: is that well? --pod asks another gateway", g.cluster, g, legible.Quoted(status.ErrStatus.Message))
	}
	return g.cluster.explain(err, "forward ports of Pods", "create pods/portforward")
}

// tunnel asks for a connection that carries SPDY: within a websocket, as newer API servers have it, or by itself.
func (c *Cluster) tunnel(ctx context.Context, to string) (net.Conn, error) {
	client := c.API.CoreV1Interface.RESTClient().(*rest.RESTClient).Client
	ws, answer, err := websocket.Dial(ctx, to, &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{tunnelled}})
	switch {
	case err == nil && ws.Subprotocol() == tunnelled:
		return &webConn{websocket.NetConn(context.Background(), ws, websocket.MessageBinary), ws}, nil
	case err == nil:
		ws.CloseNow()
	case answer == nil:
		return nil, err
	default:
		err = refusal(answer)
	}
	conn, second := overSPDY(ctx, client, to)
	if second == nil {
		return conn, nil
	}
	if _, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return nil, err // the API server's own word
	}
	return nil, second
}

func overSPDY(ctx context.Context, client *http.Client, to string) (net.Conn, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	request.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	request.Header.Set(httpstream.HeaderProtocolVersion, protocol)
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	conn, ok := answer.Body.(io.ReadWriteCloser)
	if !ok || !strings.EqualFold(answer.Header.Get(httpstream.HeaderUpgrade), spdy.HeaderSpdy31) {
		defer answer.Body.Close()
		return nil, refusal(answer)
	}
	return &bodyConn{conn}, nil
}

// notUpgradedError is what something that is no API server answers.
type notUpgradedError string

func (e notUpgradedError) Error() string { return string(e) }

// refusal returns why a connection was not upgraded: what the API server says, or a notUpgradedError.
func refusal(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, guard.MaxError)) // what has come before an error counts
	var status metav1.Status
	const begins = `{"kind":"Status"`
	switch err := json.Unmarshal(text, &status); {
	case err == nil && status.Kind == "Status":
		status.Code = int32(answer.StatusCode)
		return &apierrors.StatusError{ErrStatus: status}
	case err != nil && strings.HasPrefix(string(text), begins): // of a refused websocket the first KiB is left
		return apierrors.NewGenericServerResponse(answer.StatusCode, "create", schema.GroupResource{Resource: "pods/portforward"}, "", string(text), 0, true)
	}
	return notUpgradedError(strings.TrimSpace(answer.Status + " " + string(text)))
}

// webConn is a connection within a websocket.
type webConn struct {
	net.Conn
	ws *websocket.Conn
}

// Close does not wait for the other side. It returns nil, since spdystream keeps a goroutine for an error.
func (c *webConn) Close() error {
	c.ws.CloseNow()
	return nil
}

// bodyConn is a connection that was one for HTTP.
type bodyConn struct{ io.ReadWriteCloser }

// LocalAddr returns an address that stands for this side.
func (*bodyConn) LocalAddr() net.Addr { return address{} }

// RemoteAddr returns an address that stands for the API server.
func (*bodyConn) RemoteAddr() net.Addr { return address{} }

type address struct{}

func (address) Network() string { return "portforward" }
func (address) String() string  { return "through the API server" }

// SetDeadline returns an error: such a connection has none.
func (*bodyConn) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline returns an error: see SetDeadline.
func (*bodyConn) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline returns an error: see SetDeadline.
func (*bodyConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
