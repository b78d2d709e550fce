// Package grpcapi implements Linkerd's Destination API. A Get stream sends the sets that a
// federation.Table publishes, and a GetProfile stream sends the profiles of a [Directory]. Each
// stream sends updates until the proxy closes the stream. Package wire encodes the messages.
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
// # Guarantees
//
// First responses and their time limits:
//
//   - A call to any method ends with DeadlineExceeded if the request does not arrive within
//     Options.Request.
//   - The server responds to a Get within Options.FirstFrame, either with messages or with a status
//     code. Together, the first messages of a stream contain the whole set of endpoints. If a
//     cluster's API server is down, the cluster's cached endpoints are still sent.
//   - If the objects of a member's cluster are not cached, and no other member has endpoints, a Get
//     ends with Unavailable.
//   - The server responds to a GetProfile immediately, either with a profile or with a status code.
//
// Updates on a Get stream:
//
//   - After the first messages, updates usually contain only changes. New and changed endpoints are
//     sent before removed endpoints. Instead of removing all endpoints, the server sends
//     no_endpoints. Streams do not restart when the service, its clusters or the client's node
//     changes.
//   - The server ends an open stream only if the stream stalls or is drained, its connection
//     reaches its maximum age, or its handler panics.
//   - If a client such as "isthmus get" sends the metadata isthmus-explain=tiers, the client
//     receives the tier of each endpoint. If tiers change, clients that request tiers receive all
//     endpoints again.
//
// Updates on a GetProfile stream:
//
//   - Each message on a GetProfile stream differs from the previous one. If the destination of an
//     open stream is deleted, the stream sends an empty profile.
//   - An invalid ServiceProfile does not remove routes. A proxy keeps the last routes that it
//     received for the service, even if the service is deleted and created again. Proxies without
//     routes for the service receive the default profile.
//   - While several objects claim the same address, open streams for this address do not send
//     updates, and new calls end with Unavailable.
//
// Resource limits:
//
//   - The amount of unread data per connection is limited by Options.ConcurrentStreams, maxStalled
//     and maxReflected. A call counts toward Options.ConcurrentStreams until its client has read
//     the response.
//   - Until Finish is called, the only limits that make the server refuse streams are
//     Options.Streams, Options.ViewBytes and federation.MaxUndeclaredPorts.
//   - When the limit on open calls or the limit on view memory is reached, the server continues to
//     serve clients whose addresses have below-average usage, until the total usage exceeds the
//     limit by one eighth (see quota).
//
// Concurrency:
//
//   - A Server is safe for concurrent use. Each open stream uses only the goroutine of its gRPC
//     handler. grpc.NumStreamWorkers must not be used, because streams would occupy the workers for
//     up to an hour.
//   - Streams with the same key share a view and its encoded messages.
//   - Only a few streams produce updates at the same time (see turns).
//
// To read the code, start with the serve function in stream.go.
package grpcapi
