package grpcapi

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
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
