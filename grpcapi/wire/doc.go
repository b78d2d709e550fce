// Package wire encodes messages for proxies. The package encodes federation.Sets as the Updates of
// a Get, and federation.Profiles as the DestinationProfiles of a GetProfile. The package does not
// handle streams.
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
//   - Encoding is deterministic. The same input always results in the same bytes.
//   - Full and Step return messages of at most 4 MiB, which is the limit of proxies, unless a
//     single endpoint is larger. An add is never empty, and a remove never leaves the proxy without
//     endpoints.
//   - If a set needs several messages, the first message is as full as possible. The first message
//     contains a fair share of the endpoints from each cluster and zone.
//   - A Profile with a Routing from Routings is also within the limit, if its names are not longer
//     than Kubernetes allows.
//   - All returned values are immutable. Encoders, Routings and Frames are safe for concurrent use.
//   - The package does not start goroutines or write logs.
//
// The package encodes WeightedAddr field by field instead of using the generated code. Encoding
// field by field takes a quarter of the time and a tenth of the memory (see BenchmarkEncodeFull and
// BenchmarkEncodeGenerated). Tests compare the encoded bytes with those of the generated code.
// Profiles are encoded with the generated code.
//
// ARCHITECTURE.md, in the root directory of the module, describes how the packages work together.
package wire
