package reach

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	constants "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	httpspdy "k8s.io/streaming/pkg/httpstream/spdy"

	"isthmus/internal/legible"
)

// pings keep load balancers from ending a connection on which nothing happens.
const pings = 10 * time.Second

// Dial connects to a port of the Pod. The context is that of the dialling only.
func (g Gateway) Dial(ctx context.Context, port int) (*Conn, error) {
	type dialled struct {
		conn *Conn
		err  error
	}
	result := make(chan dialled) // a program that gets credentials may outlive ctx
	go func() {
		conn, err := g.dial(ctx, port)
		select {
		case result <- dialled{conn, err}:
		case <-ctx.Done():
			if conn != nil {
				conn.Close()
			}
		}
	}()
	select {
	case d := <-result:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g Gateway) dial(ctx context.Context, port int) (*Conn, error) {
	connection, err := g.cluster.upgrade(ctx, g.cluster.api.REST.Post().
		Resource("pods").Namespace(g.Namespace).Name(g.Name).SubResource("portforward").URL())
	if err != nil {
		return nil, g.explain(err)
	}
	stop := context.AfterFunc(ctx, func() { connection.Close() })
	defer stop()
	conn, err := newConn(connection, g, port)
	if err != nil {
		connection.Close()
		if _, ok := errors.AsType[*refusedError](err); ok {
			return nil, err
		}
		return nil, fmt.Errorf("the connection to Pod %s can't be used: %s", g, legible.Quoted(err.Error()))
	}
	return conn, nil
}

// explain returns an error for a connection that is not made.
func (g Gateway) explain(err error) error {
	const right = "create pods/portforward"
	cause := err
	if failed, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		cause = failed.Cause
	}
	status, answered := errors.AsType[*apierrors.StatusError](cause)
	switch {
	case apierrors.IsNotFound(cause):
		return fmt.Errorf("the Pod %s is gone\n  Ask again: another may have taken its place", g)
	case answered && !apierrors.IsForbidden(cause) && !apierrors.IsUnauthorized(cause):
		return fmt.Errorf("%s can't connect to Pod %s: %s\n  It does so through the kubelet of the Pod's node: is that well? --pod asks another gateway", g.cluster, g, legible.Quoted(status.ErrStatus.Message))
	case !answered && strings.Contains(cause.Error(), " is forbidden: "): // a text, over SPDY
		return g.cluster.forbidden(cause.Error(), "forward ports of Pods", right)
	case !answered && httpstream.IsUpgradeFailure(err):
		return fmt.Errorf("%s can't connect to Pod %s: %s\n  Is there something between here and the API server that passes neither websockets nor SPDY?", g.cluster, g, legible.Quoted(cause.Error()))
	}
	return g.cluster.explain(cause, "forward ports of Pods", right)
}

// upgrade asks for a connection that has streams: over a websocket, as newer API servers
// have it, and otherwise over SPDY.
func (c *Cluster) upgrade(ctx context.Context, to *url.URL) (httpstream.Connection, error) {
	connection, err := c.overWebsocket(ctx, to)
	if !httpstream.IsUpgradeFailure(err) && !httpstream.IsHTTPSProxyError(err) {
		return connection, err
	}
	connection, second := c.overSPDY(ctx, to)
	if second == nil {
		return connection, nil
	}
	if failed, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		if _, ok := errors.AsType[*apierrors.StatusError](failed.Cause); ok {
			return nil, err // the API server's own word
		}
	}
	return nil, &httpstream.UpgradeFailureError{Cause: second}
}

// overWebsocket is what portforward.NewSPDYOverWebsocketDialer does, within a context.
func (c *Cluster) overWebsocket(ctx context.Context, to *url.URL) (httpstream.Connection, error) {
	transport, holder, err := websocket.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(transport, holder, request, constants.WebsocketsSPDYTunnelingPrefix+portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	return httpspdy.NewClientConnectionWithPings(portforward.NewTunnelingConnection("client", conn), pings)
}

func (c *Cluster) overSPDY(ctx context.Context, to *url.URL) (httpstream.Connection, error) {
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), nil)
	if err != nil {
		return nil, err
	}
	connection, _, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, request, portforward.PortForwardProtocolV1Name)
	return connection, err
}
