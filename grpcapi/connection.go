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

// What a call has sent stays in gRPC's memory until its client takes it, also after the
// call: HTTP/2's windows are the client's to open. So a call keeps its place among
// Options.ConcurrentStreams until the end is on the wire, which bounds the number, and what
// is large is bounded here. gRPC drops what is waiting only if the connection is closed.

// maxStalled is how many streams of a connection may end as stalled before it is closed.
// Each can leave up to 64 KiB.
const maxStalled = 100

// Why a connection is closed: the reasons in isthmus_connections_closed_total.
const (
	closedStalled    = "stalled"    // maxStalled of its streams have ended as stalled
	closedReflection = "reflection" // it has not taken an answer of reflection in time
)

// connections implements transport credentials without encryption. The handshake gives each
// connection a clientConnection, which connectionOf returns to the calls of the connection.
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
	return addr.AddrPort().Addr().Unmap().WithZone("") // nil has an invalid one
}

// Clone implements credentials.TransportCredentials.
func (cs *connections) Clone() credentials.TransportCredentials {
	clone := *cs
	clone.TransportCredentials = cs.TransportCredentials.Clone()
	return &clone
}

// clientConnection is what the calls of one client connection share: their peer's AuthInfo. A nil
// *clientConnection means that the connection is unknown.
type clientConnection struct {
	credentials.AuthInfo

	// fixed
	parent *connections
	began  time.Time
	conn   net.Conn
	addr   netip.Addr // the client's; invalid: not known

	stalled   atomic.Int32 // streams that have ended as stalled
	reflected atomic.Int32 // answers of reflection
}

// connectionOf returns the connection of a call; nil: not known.
func connectionOf(ctx context.Context) *clientConnection {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	conn, _ := p.AuthInfo.(*clientConnection)
	return conn
}

// client returns the client's address; invalid: not known.
func (c *clientConnection) client() netip.Addr {
	if c == nil {
		return netip.Addr{}
	}
	return c.addr
}

// noteStall counts a stream that has ended as stalled, and closes the connection if it
// is one too many: its proxy begins anew on another one.
func (c *clientConnection) noteStall() {
	if c != nil && c.stalled.Add(1) == maxStalled {
		c.close(closedStalled)
	}
}

// close closes the connection, and with it frees all that waits to be taken.
func (c *clientConnection) close(reason string) {
	c.parent.closed.WithLabelValues(reason).Inc()
	c.parent.log.Warn("connection closed: its client takes no answers",
		zap.String("reason", reason), zap.Stringer("client", c.conn.RemoteAddr()))
	if err := c.conn.Close(); err != nil {
		c.parent.log.Debug("connection of a client not closed", zap.Error(err)) // it was closed by then
	}
}

// endOfAge returns when a stream should end because its connection reaches the maximum age. The
// time differs from stream to stream. If it is zero, the stream does not end for that reason.
func (c *clientConnection) endOfAge(maximum time.Duration) time.Time {
	if c == nil || maximum <= 0 {
		return time.Time{}
	}
	return c.began.Add(maximum*9/10 + rand.N(max(1, maximum/5)))
}

// A connection has a maximum age (Options.ConnectionAge), so that a replica that has
// been restarted gets proxies again:
//
//   - At 0.72 to 0.88 of the age, gRPC sends GOAWAY: a proxy opens its next streams on a
//     new connection, and keeps those that it has.
//   - At 0.9 to 1.1 of the age, each stream at a moment of its own, its streams are
//     ended with Unavailable. The proxy keeps the set, and opens the stream again on
//     the new connection, where the first message replaces the set. So no set shrinks,
//     and the streams of a proxy do not all begin anew at once.
//   - Half the age after the GOAWAY, gRPC closes the connection, whatever is open.
//
// A stream whose first message has not been sent is not ended, since its proxy would
// take that for a refusal; nor is one that was sent it less than minAnswered ago.

// statusTooOld ends a stream of a connection that has reached its maximum age.
var statusTooOld = status.New(codes.Unavailable, "the connection has reached its maximum age")

// minAnswered is the least time that a stream is open after its first message, so that
// the streams of a proxy that stays on an old connection do not end again and again.
const minAnswered = time.Second

// maximumAge returns the keepalive parameters with which gRPC asks a connection to go,
// and closes it. gRPC adds a jitter of 10 % to the first.
func maximumAge(age time.Duration, p keepalive.ServerParameters) keepalive.ServerParameters {
	if age > 0 {
		p.MaxConnectionAge = age * 8 / 10
		p.MaxConnectionAgeGrace = age/2 + 5*time.Second
	}
	return p
}
