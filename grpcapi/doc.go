// Package grpcapi is the Destination server. It answers a proxy's Get with the sets
// that a federation.Table publishes, and its GetProfile with the profiles of a
// [Directory], for as long as the proxy keeps the stream open. Package wire encodes
// the messages.
//
//	s, err := grpcapi.New(table, directory, grpcapi.Options{ClusterDomain: "cluster.local"})
//	g := s.GRPC()
//	go g.Serve(listener)
//	...
//	s.MarkNotServing()           // shutdown: clients that check the health choose another replica,
//	s.Drain(ctx)                 // open streams are ended one by one,
//	s.WaitUnused(ctx, time.Second) // and once the proxies stay away
//	s.Finish()                   // all others are refused
//	g.Stop()
//
// Guarantees:
//
//   - A call of any method whose request does not come within Options.Request ends with
//     DeadlineExceeded.
//   - A Get is answered within Options.FirstFrame, with a message or with a code. The
//     message is one add with the whole merged set, or no_endpoints. A set that is
//     too large for one message comes in several: see package wire.
//   - After that its proxy receives steps only: adds of what is new or has changed,
//     then removes; no_endpoints instead of a remove that would leave nothing; never
//     an empty add. That holds whatever happens to the service, its clusters and the
//     client's node. An open stream is ended only by its client, a stall, a drain, its
//     connection's age or end, or a panic.
//   - Only a client whose Get has the metadata isthmus-explain, as that of "isthmus get"
//     has, is sent which tier of the service's preference its endpoints belong to. When
//     they change, all are sent again.
//   - A GetProfile is answered at once, with a profile or with a code. Each later
//     message is a profile that differs from the one before. If the destination is
//     gone, or does not exist yet, an open stream is sent an empty profile.
//   - A ServiceProfile that is invalid takes no routes away: a proxy that has received
//     routes of the service keeps them, also while the service is deleted and created
//     again. Other proxies get the default. While it is ambiguous which object has an
//     address, nothing is sent.
//   - What clients do not take is bounded: of Get and GetProfile see maxStalled, of
//     reflection see maxReflected. All other answers are small, and a call has one of
//     Options.ConcurrentStreams until its client has taken what it was sent.
//   - No stream is refused until Finish, also during a Drain, except at three limits: the
//     number of open calls (Options.Streams), the memory of views (Options.ViewBytes),
//     and the undeclared ports of a service (federation.MaxUndeclaredPorts). A client
//     address that uses less than the average address is also served at the first two
//     limits (quota).
//
// Concurrency: the methods of a Server may be called by any goroutine. Every open stream has one
// goroutine, its gRPC handler's. The Server does not use grpc.NumStreamWorkers: streams live for up to
// an hour and would occupy all of those.
// Streams with equal keys share a view, and with it every encoded message. Of all streams a
// few at a time produce updates (turns), so that the goroutines that read watches do not
// wait behind thousands of them.
//
// File stream.go has the life of a stream, from serve downward. What a Get sends is in get.go,
// what a GetProfile sends in profile.go, and what streams share in view.go. The bounds of
// calls and memory are in limits.go, those of connections in connection.go.
//
// ARCHITECTURE.md, at the module's root, describes how the packages work together.
package grpcapi
