// Package grpcapi implements Linkerd's Destination API. It answers a proxy's Get with the sets that
// a federation.Table publishes. It answers GetProfile with the profiles of a [Directory]. A stream
// stays open and sends updates for as long as the proxy keeps it open. Package wire encodes the
// messages.
//
//	s, err := grpcapi.New(table, directory, grpcapi.Options{ClusterDomain: "cluster.local"})
//	g := s.GRPC()
//	go g.Serve(listener)
//	...
//	// Shutdown:
//	s.MarkNotServing()             // clients that check health choose another replica
//	s.Drain(ctx)                   // end the open streams one by one
//	s.WaitUnused(ctx, time.Second) // wait until no proxy reconnects
//	s.Finish()                     // refuse new streams
//	g.Stop()
//
// Callers may rely on the following guarantees.
//
// First responses and their time limits:
//
//   - If the request of a call of any method does not arrive within Options.Request, the call ends
//     with DeadlineExceeded.
//   - A Get is answered within Options.FirstFrame, with messages or with a status code. The first
//     message is one add with the whole merged set, or no_endpoints. Package wire splits a set that
//     is too large for one message.
//   - If a member's cluster is unreachable or still pending, and no other member has endpoints, the
//     Get ends with Unavailable. A stale cluster keeps its cached endpoints. If Isthmus restarts
//     meanwhile, the cluster becomes unreachable and has no endpoints until its API server is back.
//   - A GetProfile is answered immediately, with a profile or with a status code.
//
// Updates of a Get:
//
//   - After the first messages, a proxy receives only differences: first adds of new or changed
//     endpoints, then removes. If a remove would leave no endpoints, the proxy receives
//     no_endpoints instead. An add is never empty. This guarantee covers every change of the
//     service, its clusters and the client's node.
//   - An open stream ends only if its client ends it, the stream stalls or is drained, its
//     connection ends or reaches its maximum age, or its handler panics.
//   - Only a client whose Get has the metadata isthmus-explain learns the tier of each endpoint.
//     "isthmus get" sends this metadata. If the tiers change, all endpoints are sent again.
//
// Updates of a GetProfile:
//
//   - Each message differs from the previous one. If the destination does not exist, an open stream
//     receives an empty profile.
//   - An invalid ServiceProfile removes no routes. A proxy that has received routes of the service
//     keeps them, even while the service is deleted and created again. Other proxies get the
//     default profile.
//   - While several objects claim the same address, open streams receive nothing, and new calls end
//     with Unavailable.
//
// Resource limits:
//
//   - Data that clients do not read is bounded. See maxStalled for Get and GetProfile, and
//     maxReflected for reflection. All other responses are small. Each call counts towards
//     Options.ConcurrentStreams until its client has read the response.
//   - Until Finish, the server refuses streams at three limits only: the number of open calls
//     (Options.Streams), the memory of views (Options.ViewBytes), and the undeclared ports of a
//     service (federation.MaxUndeclaredPorts). Drain refuses no streams.
//   - At the first two limits, a client address that uses less than the average is still served
//     (see quota).
//
// Concurrency:
//
//   - A Server is safe for concurrent use. Each open stream uses one goroutine, its gRPC handler's.
//     The Server does not use grpc.NumStreamWorkers, because streams live for up to an hour and
//     would occupy all workers.
//   - Streams with equal keys share a view and its encoded messages.
//   - Only a few streams produce updates at a time (see turns). Otherwise the goroutines that read
//     watches would wait behind thousands of streams.
//
// To read the code, begin with serve in stream.go. ARCHITECTURE.md, at the module's root, describes
// how the packages work together.
package grpcapi
