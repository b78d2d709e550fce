// Package tierspec computes which endpoints of a service clients get, as docs/preference.md
// describes. It covers tiers, min-ready, failing back, clusters that are taken out, Linkerd
// gateways, and the rules that interact with them.
//
// It is a reference implementation for tests: the tests of packages federation and local and the
// simulator compare Isthmus with it. It is as simple as possible. It computes every result from
// scratch, and shares no code with Isthmus.
//
//	st := service.State()                    // a Service at one instant
//	n := st.Needed()                         // number of tiers that clients need
//	list := tierspec.Sent(instants, now)     // endpoints that clients get at now
//
// [Sent] takes the states of all instants so far, because tiers that are no longer needed are
// dropped gradually. [Preference.With] parses the annotations of a Service.
package tierspec
