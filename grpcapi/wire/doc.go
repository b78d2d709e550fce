// Package wire encodes what proxies are sent: federation.Sets as the Updates of a
// Get, and federation.Profiles as the DestinationProfiles of a GetProfile. It knows
// nothing of streams.
//
//	enc, err := wire.NewEncoder(wire.Options{H2Upgrade: true})
//	first := enc.Full(before)              // for a proxy that has nothing
//	more := enc.Step(before, now, false)   // for a proxy that has before
//
//	routings := wire.NewRoutings(reportTooLarge)
//	frame := enc.Profile(profile, routings.Of(profile.Routes, profile.Port))
//
// Guarantees:
//
//   - The same input gives the same bytes: they do not depend on time, on chance or
//     on what was encoded before.
//   - Full and Step return messages of at most 4 MiB, the limit of proxies, unless a
//     single endpoint is larger. No add is empty, and no remove leaves the proxy
//     without endpoints.
//   - If a set needs several messages, the first is as full as possible, and holds a
//     fair share of each cluster and zone.
//   - A Profile with a Routing from Routings is within the limit too, as long as
//     names are no longer than Kubernetes allows.
//
// Concurrency: everything returned is immutable. Encoders, Routings and Frames may
// be used by any goroutine at any time. The package starts no goroutines and writes
// no logs.
//
// WeightedAddr is written field by field rather than through the generated struct: that
// takes a quarter of the time and a tenth of the memory (BenchmarkEncodeFull and
// BenchmarkEncodeGenerated). Tests compare the result with the generated code. Profiles are
// encoded by the generated code.
//
// ARCHITECTURE.md, at the module's root, describes how the packages work together.
package wire
