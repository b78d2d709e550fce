// Package serviceprofile translates ServiceProfiles, Linkerd's custom resource of
// routes, into what proxies can be sent: a [federation.ServiceProfile].
//
//	t := serviceprofile.Translate(o)
//	if t.Profile == nil {
//		log.Warn("the ServiceProfile can't be used", zap.String("reason", t.Problem))
//	}
//
// What callers may rely on:
//
//   - Whatever stands in a spec, Translate returns soon, and what it returns can be
//     encoded and sent: texts are UTF-8, conditions are no deeper and the whole is
//     no larger than proxies decode.
//   - A Problem names the field ("routes[0] \"r\": condition: …"), quotes little, and
//     is fit to be logged.
//   - It is a pure function: equal specs give equal results.
//
// It is safe for concurrent use, and starts no goroutine.
//
// A ServiceProfile counts as a whole: what can't be used in one place makes all of
// it of no use, as half of a policy may say the opposite of all of it. Only a timeout
// that is no duration is left out alone. Of opaque ports nothing is read: those are
// the Service's.
//
// ARCHITECTURE.md, at the module's root, says how the packages work together.
package serviceprofile
