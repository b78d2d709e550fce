// This file and its neighbours translate ServiceProfiles, Linkerd's custom resource for
// routes, into [federation.ServiceProfile], the form in which proxies get them.
//
//	t := serviceprofile.Translate(o)
//	if t.Profile == nil {
//		log.Warn("the ServiceProfile can't be used", zap.String("reason", t.Problem))
//	}
//
// For example, a request condition with two fields
//
//	method: GET
//	pathRegex: /cart/.*
//
// becomes one [federation.Match] of kind MatchAll with these two in Sub, since all fields of a
// condition have to hold. A status with one bound becomes a range of one status. A weight of "500m"
// becomes 5,000, and a weight of 1 becomes 10,000, since proxies get weights as integers.
//
// What callers may rely on:
//
//   - Whatever a spec contains, Translate takes little time, and its result can be
//     encoded and sent: texts are UTF-8, conditions are not nested deeper and the
//     whole is not larger than proxies decode.
//   - A Problem names the field ("routes[0] \"r\": condition: …"), has at most 500
//     bytes, and is safe to log.
//   - It is a pure function: equal specs give equal results.
//
// It is safe for concurrent use, and starts no goroutine.
//
// A ServiceProfile is used as a whole or not at all: half of a policy may mean the
// opposite of the whole. There is one exception: a timeout that is not a duration is
// left out, and the rest is used. Opaque ports are not read here: proxies get those of
// the Service.
//
// Proxies discard a few things that API servers accept: a retry budget with a ttl below 1 s or
// above 1 min, a ratio above 1,000 or more than 2,147,483,647 minimal retries per second, and a
// status without bounds. Translate passes these on, and the Problem names them.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package cluster
