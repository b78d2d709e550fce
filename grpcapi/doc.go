// Package grpcapi is the Destination server: it answers a proxy's Get with what
// federation.Table publishes, and its GetProfile with what a Directory tells, for as
// long as the proxy listens. Package wire makes the messages.
//
// What callers may rely on:
//
//   - A Get begins with a message within Options.FirstFrame, or ends with a
//     code. The message is one add with the whole merged set, or no_endpoints. A set
//     that is too large for one message comes in several: the first is as full as
//     proxies take, and has of each cluster and zone its share.
//   - After that its proxy only ever sees steps: what is new or has changed before
//     what is gone, no_endpoints in place of a removal that would leave nothing,
//     never an empty add. That holds across everything that happens to the
//     service, its clusters and the client's node. A code comes in place of the
//     first message: a live stream is ended by its client, a stall, a drain or a
//     panic only.
//   - Until Finish nobody is refused: while streams are sent elsewhere (Drain), those
//     who come, or come back, are served, and are not sent elsewhere again.
//   - A GetProfile begins with a profile, or ends with a code, at once. Each
//     message after that is a profile that says something else than the one
//     before. A code comes in place of the first one here too: of what is no more,
//     or not yet, a live stream is told by an empty profile.
//   - A ServiceProfile that can't be used takes no routes away: who has had routes
//     of that service keeps them, also while the service goes and comes back;
//     everybody else gets the default. While it is not clear who has an address,
//     nothing is sent.
//
// Decisions:
//
//   - A view is what one kind of client (one federation.Key, one
//     federation.ProfileKey) sees, and its protobuf. Every message is encoded once,
//     by the first stream that needs it, and sent by all as the same bytes:
//     wire.Codec hands them to gRPC as they are. A stream that missed sets goes from
//     the one it sent last to the newest; that step is shared too, among those who
//     missed the same.
//   - One goroutine per open stream, the handler's, and no queue: a stream holds the
//     set that it sent last, and a slow proxy blocks nobody but itself.
//   - That goroutine gets by with a stack of 4 KiB, unless calls are traced, of which
//     gRPC's own frames take half. Whatever needs more (to receive a request, to
//     send its first messages, to encode) is done by workers: Go makes a stack that
//     was once needed small again only if less than a quarter is used. So a stream
//     takes 4 KiB less, and no stack is copied to a larger one while it opens. For
//     that, the service is registered with handlers of our own: generated ones
//     receive the request before they call anybody. While its request has not come,
//     or its first messages are not taken, a call has a worker besides; while it
//     waits for clusters it has none.
//   - A profile is shared as a pair: the profile, and the routes in it. They are
//     its own, or, where its ServiceProfile can't be used, those that a stream has
//     had; streams that have had the same share the same bytes. What a stream has
//     had ends with the profile of another service, or other routes; not with one
//     that has no service, since how much is told of what comes and goes depends on
//     how fast a proxy takes it.
//   - Whoever ends a stream from outside (stall, drain) writes its status to
//     gRPC's transport stream, which cancels the stream's context and frees a
//     blocked SendMsg. Cancelling the context alone, as from a tap handle, makes
//     grpc-go itself answer Canceled before the handler can say Unavailable. The
//     transport stream's WriteStatus is found by its signature; if a release of
//     grpc-go hides it, every stream ends with Internal, and every test here fails.
//   - A proxy that is refused waits twice as long before it tries again, up to a
//     minute, and starts over with the first message that it gets. It also goes by
//     DNS that is half a minute old. So a drain that refused those who come back
//     would keep them away from every replica; one that serves them costs them 0.1 s.
//   - A proxy whose stream was ended is nowhere for 0.1 s. So that there is no stream
//     means nothing until it has lasted a while: Deserted.
//   - Views that nobody uses stay for Options.Linger, since a quiet stream that
//     ends is followed by the same proxy's next one. They are in a plain LRU with a
//     timer each: the expirable LRU of the same library starts a goroutine that
//     never ends. Only views with endpoints stay, and profiles of services and of
//     endpoints that are known; the latter without messages. So names and addresses
//     that clients make up leave nothing behind. Namespaces do, and ports of a Pod
//     or of an instance: a client that makes up many of them pushes out the idle
//     views of others, which are then made again, but takes no more memory than
//     Options.IdleViews and Options.IdleBytes allow. The names in a token that are
//     longer than any in Kubernetes count as not known.
//   - A cluster that is known to be unreachable is not waited for: a Get that finds
//     nothing else is answered Unavailable at once. A live stream whose set is empty
//     while a cluster is pending says so after Options.FirstFrame.
//   - No stream workers (grpc.NumStreamWorkers): streams live for up to an hour, so
//     that all workers would be taken, and each further stream gets a goroutine
//     anyway. Read buffers are small, since proxies send next to nothing.
//   - Names in an authority that are empty (".shop.svc.…") or longer than a DNS
//     label are InvalidArgument: no service can ever be called that.
//   - The counter endpoint_updates_queue_overflow says which service by its full
//     authority, as the client would spell it, not as it did. A stalled GetProfile
//     by cluster IP counts as one of the service that has it by then.
//   - An address with a zone (fe80::1%eth0) is InvalidArgument: it means nothing
//     on another machine.
//   - Metrics about services are counted when scraped, from what streams share
//     (census): streams pay nothing for them, and nothing is left of those that
//     have gone. The series count streams of each member of a service, in the
//     member's cluster. Their counters of updates begin at their first scrape, and
//     what is counted between the last scrape of a series and its end is lost.
//     A stream that is shown nothing counts without its hostname and node, which
//     may be made up.
//   - Stalls are counted by service, for the thousand names that have stalled last,
//     until the service goes.
//   - A stream waits Options.Pace from the beginning of its last message, so that
//     a proxy that takes its time is not made to wait longer.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package grpcapi
