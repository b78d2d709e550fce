// Package writes makes objects what they are to be while a replica holds a Lease (local/election): in turn, not too often, and again after
// failures. What is to be written is decided by its callers, local/exports and local/externalworkload.
//
//	l := writes.NewLoop(writes.Options[plan.ID]{Changed: changed, Pass: pass})
//	l.Run(ctx) // which calls pass again and again
//
// Guarantees:
//
//   - A change waits 50 ms for others. What takes long to decide is decided less often, so that a tenth of the time goes into it, but within
//     a second of a change.
//   - At most 32 writes are under way, 4 of these of one turn: a link or namespace whose writes hang leaves room to the others. They
//     take turns, and within one turn those within it do.
//   - An object is written at most once a second. With MaxPause that becomes less often if it goes on changing.
//   - A write that fails delays its own object only: it is tried again after 1 s and then ever later, up to 5 min, for ever.
//
// ARCHITECTURE.md, at the module's root, shows how the packages work together.
package lease
