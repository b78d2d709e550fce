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
//   - If the names in a Profile are not longer than Kubernetes allows, and its Routing comes from a
//     Routings, the encoded Profile is at most 4 MiB.
//   - All returned values are immutable. Encoders, Routings and Frames are safe for concurrent use.
//
// Encoding a WeightedAddr field by field takes a quarter of the time and a tenth of the memory that
// the generated code needs. BenchmarkEncodeFull and BenchmarkEncodeGenerated measure the
// difference. Tests check that both encodings produce the same bytes. Profiles are encoded with the
// generated code, except for the endpoint field.
package wire
