package grpcapi

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

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
