// Package grpcapi implements Linkerd's Destination API. In response to a Get, the package sends the
// sets that a federation.Table publishes. In response to a GetProfile, the package sends the
// profiles of a [Directory]. Each stream sends updates for as long as the proxy keeps the stream
// open. Package wire encodes the messages.
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
//   - If a call's request does not arrive within Options.Request, the call ends with
//     DeadlineExceeded. The limit on the request's arrival applies to all methods.
//   - The server responds to a Get within Options.FirstFrame, either with messages or with a status
//     code. The first message is either an add with the whole merged set, or no_endpoints. If a set
//     is too large for one message, package wire splits the set.
//   - If a member's cluster is unreachable or still pending, and the other members do not have
//     endpoints, the Get ends with Unavailable. A stale cluster keeps its cached endpoints. If
//     Isthmus restarts while a cluster's API server is down, the cluster has the endpoints from a
//     copy (package local/copies). Without a copy, the cluster is unreachable and does not have
//     endpoints until the API server is back.
//   - The server responds to a GetProfile immediately, either with a profile or with a status code.
//
// Updates of a Get:
//
//   - After the first messages, a proxy receives only differences: first adds of new or changed
//     endpoints, and then removes. If a remove would leave the proxy without endpoints, the proxy
//     receives no_endpoints instead. An add is never empty. Proxies receive only differences even
//     if the service, its clusters or the client's node changes.
//   - An open stream ends only if its client ends it, the stream stalls or is drained, its
//     connection ends or reaches its maximum age, or its handler panics.
//   - A client learns the tier of each endpoint only if its Get has the metadata isthmus-explain,
//     which "isthmus get" sends. If the tiers change, these clients receive all endpoints again.
//
// Updates of a GetProfile:
//
//   - Each message of a GetProfile differs from the previous one. If the destination does not
//     exist, an open stream receives an empty profile.
//   - An invalid ServiceProfile does not remove routes. A proxy that has received routes for the
//     service keeps these routes, even while the service is deleted and created again. Proxies that
//     have not received routes for the service receive the default profile.
//   - While several objects claim the same address, open streams do not receive updates, and new
//     calls end with Unavailable.
//
// Resource limits:
//
//   - The amount of data that clients have not read is limited. The constants maxStalled and
//     maxReflected limit the unread data of Get and GetProfile streams and of reflection,
//     respectively. Responses to all other methods are small. Each call counts toward
//     Options.ConcurrentStreams until its client has read the response.
//   - Until Finish is called, only three limits cause the server to refuse streams. The limits are
//     for open calls (Options.Streams), the memory of views (Options.ViewBytes), and the undeclared
//     ports of a service (federation.MaxUndeclaredPorts). Drain does not refuse streams.
//   - When the limit on calls or on memory is reached, a client address that uses less than the
//     average is still served (see quota).
//
// Concurrency:
//
//   - A Server is safe for concurrent use. Each open stream uses one goroutine, which is the
//     goroutine of its gRPC handler. The Server does not use grpc.NumStreamWorkers, because streams
//     live for up to an hour and would occupy all workers.
//   - Streams with the same key share a view and its encoded messages.
//   - Only a few streams produce updates at the same time (see turns). If all streams produced
//     updates at once, the goroutines that read watches would wait behind thousands of streams.
//
// The best starting point for reading the code is the function serve in stream.go. ARCHITECTURE.md,
// in the root directory of the module, describes how the packages work together.
package grpcapi
