// Package tierspec computes which endpoints of a service a client receives, according to
// docs/preference.md. The package implements tiers, min-ready, failing back, cordons, Linkerd
// gateways, and all related rules.
//
// The package is a reference implementation for tests. The simulator and the tests of packages
// federation and local compare Isthmus with tierspec. The implementation is as simple as possible,
// computes every result from scratch, and does not share code with Isthmus.
//
//	st := service.State()                    // a Service at one instant
//	n := st.Needed()                         // number of tiers that clients need
//	list := tierspec.Sent(instants, now)     // endpoints that clients get at now
//
// The [Sent] function needs the states of a service at all earlier instants, because clients
// gradually drop the tiers that they no longer need. [Preference.With] parses the annotations of a
// Service.
package tierspec
