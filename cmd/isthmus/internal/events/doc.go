// Package events keeps what has happened lately, for people: the page at / and
// /debug/events show it.
//
//	log := events.NewLog()
//	log.Add(adminapi.Event{Kind: adminapi.EventCluster, Object: "east", Text: "stale: connection refused", Problem: true})
//	newest := log.Newest()
//
// Guarantees:
//
//   - It keeps [Most] events. What happens again, with the same kind, object and text, is
//     one event with a count, at its newest time.
//   - What happens often does not push out what happens rarely: an event that is too much
//     takes the place of the oldest of the kind that has most, and one object has at most
//     [MostOfObject] of a kind.
//   - Texts are shortened, and everything that is no printable character is replaced: they
//     come from clusters.
//
// A Log is safe for concurrent use. Adding looks at each event that is kept, which takes some microseconds, and calls nothing: so it may
// be done under any lock.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package events
