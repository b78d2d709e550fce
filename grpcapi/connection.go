package grpcapi

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

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

// clientConnection is what the calls of one client connection share: their peer's AuthInfo.
type clientConnection struct {
	credentials.AuthInfo
	began time.Time // fixed, as is conn
	conn  net.Conn
	addr  netip.Addr // the client's; invalid: not known; fixed

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
func (s *Server) noteStall(conn *clientConnection) {
	if conn != nil && conn.stalled.Add(1) == maxStalled {
		s.closeConnection(conn, closedStalled)
	}
}

// closeConnection closes a connection, and with it frees all that waits to be taken.
func (s *Server) closeConnection(conn *clientConnection, reason string) {
	s.metrics.closed.WithLabelValues(reason).Inc()
	s.log.Warn("connection closed: its client takes no answers",
		zap.String("reason", reason), zap.Stringer("client", conn.conn.RemoteAddr()))
	if err := conn.conn.Close(); err != nil {
		s.log.Debug("connection of a client not closed", zap.Error(err)) // it was closed by then
	}
}

// connectionCredentials are no credentials. They make a connection's calls know it.
type connectionCredentials struct {
	credentials.TransportCredentials
}

func newConnectionCredentials() connectionCredentials {
	return connectionCredentials{insecure.NewCredentials()}
}

// ServerHandshake implements credentials.TransportCredentials.
func (c connectionCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(conn)
	return conn, &clientConnection{AuthInfo: info, began: time.Now(), conn: conn, addr: addrOf(conn)}, err
}

func addrOf(conn net.Conn) netip.Addr {
	addr, _ := conn.RemoteAddr().(*net.TCPAddr)
	return addr.AddrPort().Addr().Unmap().WithZone("") // nil has an invalid one
}

// Clone implements credentials.TransportCredentials.
func (c connectionCredentials) Clone() credentials.TransportCredentials {
	return connectionCredentials{c.TransportCredentials.Clone()}
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

// endOfAge returns when a stream should end because of its connection's age, as
// Server.clock; 0: never.
func (s *Server) endOfAge(conn *clientConnection) int64 {
	age := s.opts.ConnectionAge
	if conn == nil || age <= 0 {
		return 0
	}
	return s.clock(conn.began.Add(age*9/10 + rand.N(max(1, age/5))))
}
