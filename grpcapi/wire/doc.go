// Package wire encodes messages for proxies. It encodes federation.Sets as the Updates of a Get,
// and federation.Profiles as the DestinationProfiles of a GetProfile. It does not handle streams.
//
//	enc, err := wire.NewEncoder(wire.Options{H2Upgrade: true})
//	first := enc.Full(before)              // for a proxy that has no set
//	more := enc.Step(before, now, false)   // for a proxy that has before
//
//	routings := wire.NewRoutings(reportTooLarge)
//	frame := enc.Profile(profile, routings.Of(profile.Routes, profile.Port))
//
// Callers may rely on the following:
//
//   - Encoding is deterministic. The same input gives the same bytes.
//   - Full and Step return messages of at most 4 MiB, the limit of proxies, unless a single
//     endpoint is larger. An add is never empty, and a remove never leaves the proxy without
//     endpoints.
//   - If a set needs several messages, the first is as full as possible. It contains a fair share
//     of each cluster and zone.
//   - A Profile with a Routing from Routings is within the limit too, as long as names are no
//     longer than Kubernetes allows.
//   - All returned values are immutable. Encoders, Routings and Frames are safe for concurrent use.
//   - The package starts no goroutines and writes no logs.
//
// WeightedAddr is encoded field by field instead of through the generated struct. That takes a
// quarter of the time and a tenth of the memory (see BenchmarkEncodeFull and
// BenchmarkEncodeGenerated). Tests compare the result with the generated code. Profiles are encoded
// by the generated code.
//
// ARCHITECTURE.md, at the module's root, describes how the packages work together.
package wire
