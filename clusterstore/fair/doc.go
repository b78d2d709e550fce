// Package fair puts work in an order in which no owner holds up the others: whoever has
// used the least time is next. Owners are namespaces here, whose tenants decide how much
// work there is and how long it takes.
//
//	d := fair.NewDirty[federation.ServiceID]()
//	go d.Run(ctx, func(id federation.ServiceID, at time.Time) { … })
//	d.Add(id.Namespace, id, time.Now())
//
// A [Queue] is the order. A [Dirty] is a set of keys that a worker handles in that order:
// bursts collapse in it.
//
// What callers may rely on:
//
//   - Within an owner, keys are in the order in which they were added.
//   - Of owners with work, the one that has used the least time is next; of those that
//     have used the same, the one that has waited for longest. So an owner with little
//     work waits for what is under way, and not for what others have queued: however
//     many keys that is, and however long each takes.
//   - An owner that had no work for a while is like the one that is next. It has no
//     claim to the time that it did not use.
//   - An owner without work takes no memory, once the others have used as much.
package fair
