// Package wire encodes messages for proxies: federation.Sets as Updates, and federation.Profiles as
// DestinationProfiles.
//
//	enc, err := wire.NewEncoder(wire.Options{H2Upgrade: true})
//	first := enc.Full(before)              // for a proxy that has no set
//	more := enc.Step(before, now, false)   // for a proxy that has before
//
//	routings := wire.NewRoutings(reportTooLarge)
//	frame := enc.Profile(profile, routings.Of(profile.Routes, profile.Port))
//
// # Guarantees
//
//   - Encoding is deterministic: the same input always results in the same bytes.
//   - Full and Step return messages of at most 4 MiB, which is the limit of proxies, unless a
//     single endpoint is larger. An add is never empty, and a remove never leaves the proxy without
//     endpoints.
//   - If a set needs several messages, the first message is as full as possible, and contains a
//     fair share of the endpoints from each cluster and zone.
//   - A Profile with a Routing from Routings is also at most 4 MiB, if its names are not longer
//     than Kubernetes allows.
//   - All returned values are immutable. Encoders, Routings and Frames are safe for concurrent use.
//
// WeightedAddr is encoded field by field, which takes a quarter of the time and a tenth of the
// memory of the generated code (see BenchmarkEncodeFull and BenchmarkEncodeGenerated). Tests
// compare the bytes with those of the generated code. Profiles are encoded with the generated code.
package wire
