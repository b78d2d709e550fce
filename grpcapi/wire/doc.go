// Package wire turns what the federation says into the bytes that proxies are
// sent: Sets into the Updates of a Get, Profiles into the DestinationProfiles of a
// GetProfile. It knows nothing of streams.
//
//	enc, err := wire.NewEncoder(wire.Options{H2Upgrade: true})
//	first := enc.Full(before)              // for a proxy that has nothing
//	more := enc.Step(before, now, false)   // for one that has before
//
// What callers may rely on:
//
//   - The same input gives the same bytes: nothing depends on the time, on chance or
//     on what was encoded before.
//   - Full and Step give messages of at most 4 MiB, which is what proxies take,
//     unless a single endpoint is larger. No add is empty, and no remove leaves
//     nothing.
//   - If a set needs several messages, the first is as full as proxies take, and
//     has of each cluster and zone its share.
//   - A profile with a routing of these Routings is never larger than proxies take,
//     as long as names are no longer than Kubernetes allows.
//   - What is returned is immutable. Encoders, Routings and Frames are safe for
//     concurrent use. Nothing is started and nothing is logged.
//
// Decisions:
//
//   - WeightedAddr and DestinationProfile are written field by field rather than
//     through the generated structs. That takes few allocations and can't fail;
//     tests compare it with the generated code.
//   - A message carries once what all its addresses share: of the labels of a
//     typical Deployment all but the Pod's name, and so a third less to send and to
//     decode. A message of one address has the shape that Linkerd's controller gives
//     it.
//   - A proxy drops, on reconnecting, what the first message does not hold, until the
//     next one comes. Therefore endpoints of a set that does not fit take turns by
//     cluster and zone, in an order that follows from their addresses (spread.go).
//   - What follows from a ServiceProfile, which can be large, is encoded once for
//     all profiles of its service port (a Routing), and is a part of their messages:
//     the order of fields does not matter. So the namespaces that clients say they
//     are in do not multiply it. Weak pointers find it again: it is gone once nobody
//     has it.
//   - A profile is one message. A ServiceProfile with which it might be larger than
//     the 4 MiB that proxies take is encoded as the default, and reported.
//   - profile_ref is left out where there is no ServiceProfile.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package wire
