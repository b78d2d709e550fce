package grpcapi

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// gRPC buffers a call's messages until the client reads them, even after the call has ended.
// Clients set the HTTP/2 flow control windows, and can therefore keep messages buffered for as long
// as they want. Buffered data is discarded only when the connection is closed.
//
// The constants maxStalled and maxReflected limit the size of buffered responses. The number of
// buffered responses is limited by Options.ConcurrentStreams, because each call counts toward the
// limit until its status has been written.

// maxStalled is the number of stalled streams at which a connection is closed. Each stalled stream
// can leave up to 64 KiB of buffered data behind.
const maxStalled = 100

// The following constants are values for the label "reason" of the metric
// isthmus_connections_closed_total.
const (
	closedStalled    = "stalled"    // maxStalled streams on the connection have stalled
	closedReflection = "reflection" // the client did not read a reflection response in time
)

// connections implements gRPC transport credentials for unencrypted connections. The handshake
// attaches a clientConnection to each connection. Handlers call connectionOf to get the
// clientConnection of a call.
type connections struct {
	credentials.TransportCredentials
	closed *prometheus.CounterVec // by reason
	log    *zap.Logger
}

func newConnections(closed *prometheus.CounterVec, log *zap.Logger) *connections {
	return &connections{TransportCredentials: insecure.NewCredentials(), closed: closed, log: log}
}

// ServerHandshake implements credentials.TransportCredentials.
func (cs *connections) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := cs.TransportCredentials.ServerHandshake(conn)
	return conn, &clientConnection{AuthInfo: info, parent: cs, began: time.Now(), conn: conn, addr: addrOf(conn)}, err
}

func addrOf(conn net.Conn) netip.Addr {
	addr, _ := conn.RemoteAddr().(*net.TCPAddr)
	return addr.AddrPort().Addr().Unmap().WithZone("") // invalid if addr is nil
}

// Clone implements credentials.TransportCredentials.
func (cs *connections) Clone() credentials.TransportCredentials {
	clone := *cs
	clone.TransportCredentials = cs.TransportCredentials.Clone()
	return &clone
}

// clientConnection is the state shared by all calls on one client connection. The peer of each call
// contains the clientConnection as its AuthInfo. A nil *clientConnection means that the connection
// is unknown.
type clientConnection struct {
	credentials.AuthInfo

	// fixed
	parent *connections
	began  time.Time
	conn   net.Conn
	addr   netip.Addr // of the client; invalid if unknown

	stalled   atomic.Int32 // number of streams that have stalled
	reflected atomic.Int32 // number of reflection responses
}

// connectionOf returns the connection of a call, or nil if the connection is unknown.
func connectionOf(ctx context.Context) *clientConnection {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	conn, _ := p.AuthInfo.(*clientConnection)
	return conn
}

// client returns the IP address of the client. If the address is unknown, the result is an invalid
// address.
func (c *clientConnection) client() netip.Addr {
	if c == nil {
		return netip.Addr{}
	}
	return c.addr
}

// noteStall counts a stalled stream. When the number of stalled streams reaches maxStalled, the
// connection is closed, and the proxy reconnects.
func (c *clientConnection) noteStall() {
	if c != nil && c.stalled.Add(1) == maxStalled {
		c.close(closedStalled)
	}
}

// close closes the connection, which frees all data that the client has not read.
func (c *clientConnection) close(reason string) {
	c.parent.closed.WithLabelValues(reason).Inc()
	c.parent.log.Warn("connection closed: the client does not read responses",
		zap.String("reason", reason), zap.Stringer("client", c.conn.RemoteAddr()))
	if err := c.conn.Close(); err != nil {
		c.parent.log.Debug("cannot close the connection of a client", zap.Error(err))
	}
}

// endOfAge returns the time at which a stream should end because of the maximum age of its
// connection. The time is random, so that streams do not all end at the same time. If the
// connection is unknown or has no maximum age, the result is zero.
func (c *clientConnection) endOfAge(maximum time.Duration) time.Time {
	if c == nil || maximum <= 0 {
		return time.Time{}
	}
	return c.began.Add(maximum*9/10 + rand.N(max(1, maximum/5)))
}

// Connections have a maximum age (Options.ConnectionAge), so that proxies return to a restarted
// replica:
//
//   - At 72% to 88% of the maximum age, the server sends GOAWAY. The proxy opens new streams on a
//     new connection, and keeps its open streams.
//   - Each stream ends with Unavailable at a random time between 90% and 110% of the maximum age.
//     The proxy keeps its endpoints until it has reopened the stream on the new connection.
//   - After the GOAWAY, the server waits for half the maximum age plus 5 s, and then closes the
//     connection even if streams are still open.
//
// The maximum age never ends a stream before its first message, because the proxy would treat the
// end as a refusal. After the first message, a stream stays open for at least minAnswered.

var statusTooOld = status.New(codes.Unavailable, "the connection has reached its maximum age")

// A stream stays open for at least minAnswered after its first message, even if the connection
// reaches its maximum age. Without this minimum, each new stream on an old connection would end
// right after its first message.
const minAnswered = time.Second

// maximumAge returns keepalive parameters that make gRPC send GOAWAY and later close the
// connection. The gRPC parameter MaxConnectionAge is set to 80% of Options.ConnectionAge. gRPC
// randomly lengthens or shortens MaxConnectionAge by up to 10%, so the server always sends GOAWAY
// before a connection reaches 90% of Options.ConnectionAge.
func maximumAge(age time.Duration, p keepalive.ServerParameters) keepalive.ServerParameters {
	if age > 0 {
		p.MaxConnectionAge = age * 8 / 10
		p.MaxConnectionAgeGrace = age/2 + 5*time.Second
	}
	return p
}
